"""Several versions of one name in service."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table of intentions anew, which had one version a name."""
    op.execute("CREATE TABLE intended AS SELECT name, version FROM intentions")
    op.drop_table("intentions")
    op.create_table(
        "intentions",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name="pk_intentions"),
        sa.ForeignKeyConstraint(
            ["name", "version"],
            ["bundles.name", "bundles.version"],
            name="fk_intentions_name",
            ondelete="CASCADE",
        ),
    )
    op.execute("INSERT INTO intentions (name, version, turn) SELECT name, version, 1 FROM intended")
    op.drop_table("intended")
