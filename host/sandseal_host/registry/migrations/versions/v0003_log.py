"""The transparency log: entries, the tree's hashes, and a signed checkpoint of every state."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the log's tables."""
    op.create_table(
        "log_entries",
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("bundle", sa.String(64), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_log_entries"),
    )
    op.create_index("ix_log_entries_kind", "log_entries", ["kind", "bundle"])
    op.create_table(
        "log_nodes",
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level", "position", name="pk_log_nodes"),
    )
    op.create_table(
        "log_checkpoints",
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("size", name="pk_log_checkpoints"),
    )
