"""The database behind the catalog: opening, upgrading, sessions; SQLite by default, PostgreSQL by URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from sandseal_host.errors import StoreError

_MIGRATIONS = Path(__file__).parent / "migrations"
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # WAL's default may lose the last commits in a power cut
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 30000",
)


class Database:
    """A database at the newest schema; thread-safe.

    Args:
        url: SQLAlchemy's form, such as `sqlite:////var/lib/sandseal/catalog.db` or `postgresql+psycopg://...`.

    Raises:
        StoreError: it cannot be opened, or was written by a newer version of this program.
    """

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._closed = False
        # SQLite: a transaction that reads first and writes later fails when another wrote in between; so writers
        # take the write lock at their beginning.
        self._writer = self._engine.execution_options(immediate=True)
        try:
            with _translated(), self._writer.begin() as connection:
                _upgrade(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one state of the database."""
        self._require_open()
        with _translated(), Session(self._engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session in one transaction: all of the block is stored at its end, or nothing."""
        self._require_open()
        with _translated(), Session(self._writer) as session, session.begin():
            yield session

    def close(self) -> None:
        """Give back every connection."""
        self._closed = True
        self._engine.dispose()

    def _require_open(self) -> None:
        if self._closed:  # the engine would open new connections
            raise StoreError("the catalog is closed", hint="open it again")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise StoreError(f"the catalog's database failed: {cause}") from error


def _engine(url: str) -> Engine:
    try:
        engine = create_engine(url)
    except (SQLAlchemyError, ImportError) as error:
        raise StoreError(
            f"the catalog's URL cannot be used: {error}", hint="sqlite:///FILE, or postgresql+psycopg:// with psycopg"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_begin` says BEGIN: the driver's own would leave DDL and reads outside
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _upgrade(connection: Connection) -> None:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in known:
        raise StoreError(
            f"the catalog has schema {current}, this version of sandseal knows {', '.join(sorted(known))}",
            hint="run the version of sandseal that wrote it, or a newer one",
        )
    command.upgrade(config, "head")
