"""The first tables: bundles with their files and signatures, version marks, intentions, tokens."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table and give the catalog its identity."""
    catalog = op.create_table(
        "catalog",
        sa.Column("identity", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("identity", name="pk_catalog"),
    )
    op.bulk_insert(catalog, [{"identity": secrets.token_hex(16)}])
    op.create_table(
        "names",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_names"),
    )
    _bundles()
    _parts_of_bundles()
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )


def _bundles() -> None:
    op.create_table(
        "bundles",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("release", sa.String(128), nullable=False),
        sa.Column("accepted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.Integer(), nullable=True),
        sa.Column("threshold", sa.Integer(), nullable=False),
        sa.Column("holders", sa.JSON(), nullable=False),
        sa.Column("signers", sa.JSON(), nullable=False),
        sa.Column("unknown", sa.JSON(), nullable=False),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_bundles"),
        sa.ForeignKeyConstraint(["name"], ["names.name"], name="fk_bundles_name"),
        sa.UniqueConstraint("name", "version", name="uq_bundles_name"),
    )


def _parts_of_bundles() -> None:
    op.create_table(
        "signatures",
        sa.Column("bundle_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("bundle_id", "name", name="pk_signatures"),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundles.id"], name="fk_signatures_bundle_id", ondelete="CASCADE"),
    )
    op.create_table(
        "files",
        sa.Column("bundle_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("bundle_id", "name", name="pk_files"),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundles.id"], name="fk_files_bundle_id", ondelete="CASCADE"),
    )
    op.create_index("ix_files_digest", "files", ["digest"])
    op.create_table(
        "intentions",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_intentions"),
        sa.ForeignKeyConstraint(
            ["name", "version"],
            ["bundles.name", "bundles.version"],
            name="fk_intentions_name",
            ondelete="CASCADE",
        ),
    )
