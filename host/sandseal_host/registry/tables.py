"""The catalog's tables, for SQLite and PostgreSQL; a change here needs a migration beside the earlier ones."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class UtcTime(TypeDecorator[datetime]):
    """A time with zone; SQLite keeps none, so UTC goes in and UTC comes out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC."""
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """From UTC, whether the database says so or not."""
        if value is None:
            return None
        time: datetime = value
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


class Row(DeclarativeBase):
    """The base of all rows; constraints have fixed names, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcTime, bytes: LargeBinary}  # noqa: RUF012 (SQLAlchemy's own declaration)


class CatalogRow(Row):
    """The catalog's identity, made with it; the only row."""

    __tablename__ = "catalog"
    identity: Mapped[str] = mapped_column(String(32), primary_key=True)


class NameRow(Row):
    """The highest version ever accepted under a name; it survives every deletion."""

    __tablename__ = "names"
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    newest: Mapped[int] = mapped_column(BigInteger)


class BundleRow(Row):
    """An accepted bundle and the verdict that accepted it."""

    __tablename__ = "bundles"
    __table_args__ = (UniqueConstraint("name", "version"),)
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(ForeignKey("names.name"))
    version: Mapped[int] = mapped_column(BigInteger)
    release: Mapped[str] = mapped_column(String(128))
    accepted_at: Mapped[datetime]
    size: Mapped[int] = mapped_column(BigInteger)
    rule: Mapped[int | None]
    threshold: Mapped[int]
    holders: Mapped[list[str]] = mapped_column(JSON)
    signers: Mapped[list[dict[str, str]]] = mapped_column(JSON)
    unknown: Mapped[list[str]] = mapped_column(JSON)
    reasons: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    payload: Mapped[bytes] = mapped_column(deferred=True)
    signatures: Mapped[list["SignatureRow"]] = relationship()
    files: Mapped[list["FileRow"]] = relationship()


class SignatureRow(Row):
    """A bundle's signature file."""

    __tablename__ = "signatures"
    bundle_id: Mapped[str] = mapped_column(ForeignKey("bundles.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    data: Mapped[bytes]


class FileRow(Row):
    """A bundle's signed file; its content is the blob of this digest."""

    __tablename__ = "files"
    bundle_id: Mapped[str] = mapped_column(ForeignKey("bundles.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), index=True)
    size: Mapped[int] = mapped_column(BigInteger)


class IntentionRow(Row):
    """The version that should be live under a name; it goes with its bundle."""

    __tablename__ = "intentions"
    __table_args__ = (
        ForeignKeyConstraint(["name", "version"], ["bundles.name", "bundles.version"], ondelete="CASCADE"),
    )
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger)


class TokenRow(Row):
    """A bearer token; of its secret only the SHA-256."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    name: Mapped[str] = mapped_column(Text)
    scopes: Mapped[list[str]] = mapped_column(JSON)
    tenant: Mapped[str] = mapped_column(Text)
    models: Mapped[str] = mapped_column(Text)
    created: Mapped[datetime]
    expires: Mapped[datetime | None]
