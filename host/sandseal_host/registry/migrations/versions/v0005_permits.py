"""Downgrade permits, and which bundle was accepted last under its name."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table of permits; a name whose last bundle was deleted before this no longer knows it."""
    op.add_column("names", sa.Column("bundle", sa.String(64), nullable=True))
    op.execute(
        "UPDATE names SET bundle = (SELECT id FROM bundles WHERE bundles.name = names.name AND version = names.newest)"
    )
    op.create_table(
        "permits",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("brought_by", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_permits"),
    )
    op.create_index("ix_permits_target", "permits", ["target"])
