"""The database behind the catalog: opening, upgrading, sessions; SQLite by default, PostgreSQL by URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
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
            self._file = _DatabaseFile.of(self._engine)
        except BaseException:
            self.close()
            raise
        if self._file:
            event.listen(self._engine, "do_connect", self._file.require)

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
        if self._file:
            self._file.require()
        with _translated(), Session(self._writer) as session, session.begin():
            yield session

    def close(self) -> None:
        """Give back every connection."""
        self._closed = True
        self._engine.dispose()

    def _require_open(self) -> None:
        if self._closed:  # the engine would open new connections
            raise StoreError("the catalog is closed", hint="open it again")


@dataclass(frozen=True, slots=True)
class _DatabaseFile:
    """The file of an SQLite database. What is written to one that was deleted is gone with the process."""

    path: Path
    identity: tuple[int, int]

    @classmethod
    def of(cls, engine: Engine) -> "_DatabaseFile | None":
        """The file of an engine that is connected; None where there is none."""
        if engine.dialect.name != "sqlite":
            return None
        with engine.connect() as connection:  # what SQLite makes of the URL, which may be one of its own in another
            name = connection.exec_driver_sql("SELECT file FROM pragma_database_list WHERE name = 'main'").scalar_one()
        return cls(Path(name), cls._identity(Path(name))) if name else None

    def require(self, *_: object) -> None:
        """Check that it is still there.

        Raises:
            StoreError: it was removed, or another one is in its place.
        """
        try:
            same = self._identity(self.path) == self.identity
        except OSError:
            same = False
        if not same:
            raise StoreError(
                f"the catalog's file {self.path} was removed or replaced under the running host",
                hint="put the same file back; or stop the host, put a backup there, and start it again",
            )

    @staticmethod
    def _identity(path: Path) -> tuple[int, int]:
        found = path.stat()
        return found.st_dev, found.st_ino


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


@cache
def _migrations() -> ScriptDirectory:
    """The migrations, which are read once a process."""
    return ScriptDirectory(str(_MIGRATIONS))


def _upgrade(connection: Connection) -> None:
    current = MigrationContext.configure(connection).get_current_revision()
    if current == _migrations().get_current_head():
        return
    known = {script.revision for script in _migrations().walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"the catalog has schema {current}, this version of sandseal knows {', '.join(sorted(known))}",
            hint="run the version of sandseal that wrote it, or a newer one",
        )
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")
