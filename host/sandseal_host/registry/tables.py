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
    Index,
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
    """The highest version ever accepted under a name, and the bundle accepted last; they survive every deletion."""

    __tablename__ = "names"
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    newest: Mapped[int] = mapped_column(BigInteger)
    bundle: Mapped[str | None] = mapped_column(String(64))


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
    """A version that was put into service, or taken out of it by hand; it goes with its bundle.

    The later it was put into service, the higher is its turn among those of its name; 0 = it was taken out.
    """

    __tablename__ = "intentions"
    __table_args__ = (
        ForeignKeyConstraint(["name", "version"], ["bundles.name", "bundles.version"], ondelete="CASCADE"),
    )
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    turn: Mapped[int] = mapped_column(BigInteger)


class PendingRow(Row):
    """A bundle for which more holders must sign; it goes when they have, or when its time is over."""

    __tablename__ = "pending"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    version: Mapped[int] = mapped_column(BigInteger)
    release: Mapped[str] = mapped_column(String(128))
    publisher: Mapped[str] = mapped_column(Text, index=True)
    size: Mapped[int] = mapped_column(BigInteger)
    uploaded_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    signers: Mapped[list[dict[str, str]]] = mapped_column(JSON)
    verdict: Mapped[dict[str, Any]] = mapped_column(JSON)
    signatures: Mapped[list["PendingSignatureRow"]] = relationship(cascade="all, delete-orphan")
    files: Mapped[list["PendingFileRow"]] = relationship(cascade="all, delete-orphan")


class PendingSignatureRow(Row):
    """A pending bundle's signature file."""

    __tablename__ = "pending_signatures"
    bundle_id: Mapped[str] = mapped_column(ForeignKey("pending.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    data: Mapped[bytes]


class PendingFileRow(Row):
    """A pending bundle's signed file; its content is the blob of this digest."""

    __tablename__ = "pending_files"
    bundle_id: Mapped[str] = mapped_column(ForeignKey("pending.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), index=True)


class RevocationRow(Row):
    """A key, bundle or blob that is refused for ever; rows are only ever added."""

    __tablename__ = "revocations"
    target: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    actor: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]


class PermitRow(Row):
    """A downgrade permit, kept for ever, so that it is used once."""

    __tablename__ = "permits"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    source: Mapped[str] = mapped_column(String(64))
    target: Mapped[str] = mapped_column(String(64), index=True)
    envelope: Mapped[bytes]
    brought_by: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class LogEntryRow(Row):
    """A leaf of the transparency log, byte for byte; the other columns find it."""

    __tablename__ = "log_entries"
    __table_args__ = (Index("ix_log_entries_kind", "kind", "bundle"),)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(16))
    bundle: Mapped[str | None] = mapped_column(String(64))
    data: Mapped[bytes]


class LogNodeRow(Row):
    """The hash of a perfect subtree of the log; leaves are those of level 0."""

    __tablename__ = "log_nodes"
    level: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    hash: Mapped[bytes]


class LogCheckpointRow(Row):
    """The signed checkpoint of the log at a size, kept for ever."""

    __tablename__ = "log_checkpoints"
    size: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    note: Mapped[bytes]


class TokenRow(Row):
    """A bearer token; of its secret only the SHA-256."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    name: Mapped[str] = mapped_column(Text)
    scopes: Mapped[list[str]] = mapped_column(JSON)
    tenant: Mapped[str] = mapped_column(Text)
    models: Mapped[str] = mapped_column(Text)
    ceiling: Mapped[str] = mapped_column(String(16))
    requests_s: Mapped[float | None]
    rows_s: Mapped[float | None]
    created: Mapped[datetime]
    expires: Mapped[datetime | None]
