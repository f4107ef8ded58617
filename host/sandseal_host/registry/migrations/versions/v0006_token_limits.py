"""What limits a token: the class that its requests get at most, and how many of them a second."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the limits; tokens from before have none."""
    op.add_column("tokens", sa.Column("ceiling", sa.String(16), nullable=False, server_default="realtime"))
    op.add_column("tokens", sa.Column("requests_s", sa.Double(), nullable=True))
    op.add_column("tokens", sa.Column("rows_s", sa.Double(), nullable=True))
