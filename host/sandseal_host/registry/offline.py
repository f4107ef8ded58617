"""A bundle out of a host's data folder, without the host: nothing is locked, upgraded or written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import create_engine, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from sandseal_host.errors import StoreError
from sandseal_host.registry.revocations import Target
from sandseal_host.registry.tables import BundleRow, RevocationRow, SignatureRow
from sandseal_signing.digest import Digest, read_chunks
from sandseal_signing.folder import open_plain
from sandseal_signing.statement import Resource
from sandseal_signing.trust import Revoked


@dataclass(frozen=True, slots=True)
class OfflineSource:
    """A bundle's signatures from the catalog and its files from the blobs; several threads may read.

    Args:
        blobs: the store's folder.
        files: the signature files by name.
    """

    blobs: Path
    files: Mapping[str, bytes]

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name."""
        return self.files

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """The blob of this digest, whatever is in it.

        Raises:
            FileMissing, FileUnexpected: the store has no such blob, or a link in its place.
        """
        with open_plain(self.blobs / "sha256" / resource.digest.hex[:2] / resource.digest.hex) as file:
            yield from read_chunks(file)

    def finish(self) -> None:
        """Nothing: other blobs belong to other bundles."""


@dataclass(frozen=True, slots=True)
class OfflineBundle:
    """What the catalog says of an accepted bundle, unverified.

    Args:
        revoked: everything that the host was ever told to refuse.
    """

    source: OfflineSource
    accepted_at: datetime
    revoked: Revoked


def open_stored(data: Path, bundle_id: Digest) -> OfflineBundle | None:
    """Find an accepted bundle in a data folder whose catalog is the SQLite file there; None when there is none.

    The host may be running. What is found is worth nothing until it is verified.

    Raises:
        StoreError: there is no catalog, or it cannot be read.
    """
    catalog = data / "catalog.sqlite"
    if not catalog.exists():
        raise StoreError(f"{catalog} is not there", hint="give the host's data folder with --data")
    # Without a write-ahead log nobody has the catalog open, and a folder that may only be read suffices.
    mode = "mode=ro" if catalog.with_name("catalog.sqlite-wal").exists() else "immutable=1"
    engine = create_engine(f"sqlite:///file:{_escaped(catalog)}?{mode}&uri=true")
    try:
        with Session(engine) as session:
            accepted_at = session.scalar(select(BundleRow.accepted_at).where(BundleRow.id == bundle_id.hex))
            rows = session.scalars(select(SignatureRow).where(SignatureRow.bundle_id == bundle_id.hex))
            files = {row.name: row.data for row in rows}
            revoked = _revoked(session)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise StoreError(
            f"the catalog {catalog} cannot be read: {cause}", hint="use the version of sandseal that wrote it"
        ) from error
    finally:
        engine.dispose()
    return OfflineBundle(OfflineSource(data / "blobs", files), accepted_at, revoked) if accepted_at else None


def _revoked(session: Session) -> Revoked:
    found: dict[str, set[str]] = {target: set() for target in Target}
    for row in session.scalars(select(RevocationRow)):
        found[row.target].add(row.digest)
    return Revoked(*(frozenset(found[target]) for target in (Target.KEY, Target.BUNDLE, Target.BLOB)))


def _escaped(path: Path) -> str:
    """The path as SQLite's URI form wants it."""
    return str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
