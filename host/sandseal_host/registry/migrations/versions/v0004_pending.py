"""Bundles for which more holders must sign."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables of pending bundles."""
    op.create_table(
        "pending",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("release", sa.String(128), nullable=False),
        sa.Column("publisher", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("uploaded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("signers", sa.JSON(), nullable=False),
        sa.Column("verdict", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pending"),
    )
    op.create_index("ix_pending_publisher", "pending", ["publisher"])
    _parts()


def _parts() -> None:
    op.create_table(
        "pending_signatures",
        sa.Column("bundle_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("bundle_id", "name", name="pk_pending_signatures"),
        sa.ForeignKeyConstraint(
            ["bundle_id"], ["pending.id"], name="fk_pending_signatures_bundle_id", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "pending_files",
        sa.Column("bundle_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("bundle_id", "name", name="pk_pending_files"),
        sa.ForeignKeyConstraint(["bundle_id"], ["pending.id"], name="fk_pending_files_bundle_id", ondelete="CASCADE"),
    )
    op.create_index("ix_pending_files_digest", "pending_files", ["digest"])
