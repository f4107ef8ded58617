"""The catalog's database: its schema is what the migrations make, and what it cannot do it says."""

import io
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from sandseal_host.errors import StoreError
from sandseal_host.registry import database
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.database import Database
from sandseal_host.registry.tables import NameRow, Row
from sandseal_host.registry.tokens import Tokens
from support.bundles import seal


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/catalog.db"


def test_the_tables_are_what_the_migrations_make(url):
    with Catalog(url) as catalog, catalog.database.reading() as session:
        assert compare_metadata(MigrationContext.configure(session.connection()), Row.metadata) == []


def test_an_empty_catalog_knows_nothing(url):
    with Catalog(url) as catalog:
        assert (catalog.all(), catalog.count(), catalog.newest("acme.tiny"), catalog.intended()) == ((), 0, None, {})


def test_a_catalog_keeps_its_identity_and_shares_it_with_no_other(url, tmp_path):
    with Catalog(url) as catalog:
        identity = catalog.identity
    with Catalog(url) as again, Catalog(f"sqlite:///{tmp_path}/other.db") as other:
        assert again.identity == identity != other.identity


def test_a_catalog_of_a_newer_version_is_refused_and_left_as_it_is(url, tmp_path):
    Catalog(url).close()
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreError, match="schema 9999") as refused:
        Catalog(url)
    assert "newer" in refused.value.hint


def test_sqlite_loses_no_commit_and_checks_foreign_keys(url):
    with Catalog(url) as catalog, catalog.database.reading() as session:
        connection = session.connection()
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert values == ["wal", 2]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_block_that_raises_stores_nothing(url):
    with Catalog(url) as catalog:
        with suppress(KeyError), catalog.database.writing() as session:
            session.add(NameRow(name="acme.tiny", newest=7))
            session.flush()
            raise KeyError
        assert catalog.newest("acme.tiny") is None


def test_a_migration_that_breaks_off_leaves_no_table(url, tmp_path, monkeypatch):
    upgrade = database._upgrade

    def broken(connection):
        upgrade(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "_upgrade", broken)
    with pytest.raises(KeyboardInterrupt):
        Catalog(url)
    monkeypatch.undo()
    connection = sqlite3.connect(tmp_path / "catalog.db")
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()
    Catalog(url).close()


def test_writers_wait_for_each_other_and_readers_for_nobody(url):
    with Catalog(url) as catalog:
        with catalog.database.writing() as session:
            session.add(NameRow(name="acme.tiny", newest=0))

        def raise_by_one(_: int) -> None:
            with catalog.database.writing() as session:
                row = session.get_one(NameRow, "acme.tiny")
                row.newest = row.newest + 1

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(raise_by_one, range(64)))
        assert catalog.newest("acme.tiny") == 64
        with catalog.database.writing() as session:
            session.get_one(NameRow, "acme.tiny").newest = 100
            session.flush()
            assert catalog.newest("acme.tiny") == 64


@pytest.mark.parametrize("url", ["", "nonsense", "nosuch://host/db", "sqlite:////no/such/folder/catalog.db"])
def test_a_url_that_cannot_be_used_is_the_operators_to_mend(url):
    with pytest.raises(StoreError):
        Database(url)


def test_a_closed_catalog_says_so(url):
    catalog = Catalog(url)
    catalog.close()
    catalog.close()
    for call in (catalog.all, lambda: catalog.dismiss("acme.tiny")):
        with pytest.raises(StoreError, match="is closed"):
            call()


def test_nothing_is_written_to_a_file_that_is_no_longer_there(url, tmp_path):
    file, kept = tmp_path / "catalog.db", tmp_path / "kept.db"
    with Catalog(url) as catalog:
        write = lambda: Tokens(catalog).reset(tmp_path / "token")  # noqa: E731
        write()
        file.rename(kept)
        for there in (None, "another"):
            if there:
                file.write_text(there)
            with pytest.raises(StoreError, match="removed or replaced"):
                write()
        kept.rename(file)
        write()


def test_a_file_may_be_named_by_sqlite_s_own_kind_of_url(tmp_path):
    file = tmp_path / "catalog.sqlite"
    with Catalog(f"sqlite:///file:{file}?uri=true") as catalog:
        file.unlink()
        with pytest.raises(StoreError, match=r"catalog\.sqlite was removed"), catalog.database.writing():
            pass


def test_a_file_that_is_no_database_is_refused(url, tmp_path):
    (tmp_path / "catalog.db").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Catalog(url)


def test_a_url_is_never_shown_with_its_password():
    with pytest.raises(StoreError) as refused:
        Database("nosuch://sandseal:hunter2@host/db")
    assert "hunter2" not in str(refused.value)


def test_a_catalog_from_before_permits_learns_what_was_accepted_last(data, alice):
    for version in (1, 2):
        last = data.registry.accept(io.BytesIO(seal([alice], version=version)), lambda _: None)
    data.stop()
    with sqlite3.connect(data.folder / "catalog.sqlite") as connection:
        connection.execute("ALTER TABLE names DROP COLUMN bundle")
        connection.execute("DROP TABLE permits")
        for column in ("ceiling", "requests_s", "rows_s"):
            connection.execute(f"ALTER TABLE tokens DROP COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = '0004'")
    connection.close()
    data.start()
    assert all(token.ceiling == "realtime" and not token.rate for token in Tokens(data.catalog).list())
    assert data.registry.find("acme.tiny") == last
    with data.catalog.database.reading() as session:
        assert session.get_one(NameRow, "acme.tiny").bundle == last.id.hex
