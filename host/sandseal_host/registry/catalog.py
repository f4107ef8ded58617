"""The catalog: which bundles were accepted, from which files, how high versions went, what should be live."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Self

from sqlalchemy import delete, exists, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from sandseal_host.errors import BundleUnknown, ModelUnknown, VersionStale
from sandseal_host.registry.acceptance import Accepted, Signer
from sandseal_host.registry.database import Database
from sandseal_host.registry.tables import (
    BundleRow,
    CatalogRow,
    FileRow,
    IntentionRow,
    NameRow,
    PendingFileRow,
    PendingRow,
    PermitRow,
    SignatureRow,
)
from sandseal_signing.bundle import Bundle
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import Envelope
from sandseal_signing.verdict import Reason

_BATCH = 500  # values in one query; SQLite's oldest limit is 999


class Catalog:
    """The accepted bundles in a database; thread-safe, every change is one transaction.

    Args:
        url: see `Database`.

    Raises:
        StoreError: the database cannot be used; so from every method.
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @property
    def identity(self) -> str:
        """A name that no other catalog has, as 32 hex digits."""
        with self.database.reading() as session:
            return session.scalars(select(CatalogRow.identity)).one()

    def add(
        self, bundle: Bundle, accepted: Accepted, noted: Callable[[Session], None], permit: Digest | None = None
    ) -> None:
        """Remember an accepted bundle and raise its name's version mark, which nothing ever lowers.

        Args:
            noted: called within the transaction.
            permit: the id of one for this bundle, which is used up where its version is not above the mark.

        Raises:
            VersionStale: the mark is at this version or above; of several uploads the first one added wins.
        """
        with self.database.writing() as session:
            mark = _mark(session, accepted.name)
            if accepted.version <= mark.newest:
                _use_up(session, permit, accepted, mark)
            mark.newest, mark.bundle = max(mark.newest, accepted.version), accepted.id.hex
            session.add(_row(bundle, accepted))
            session.execute(delete(PendingRow).where(PendingRow.id == accepted.id.hex))
            noted(session)

    def resign(self, bundle_id: Digest, file: str, data: bytes, signer: Signer) -> None:
        """Add another holder's or key's signature to an accepted bundle.

        Args:
            file: the signature file's name.

        Raises:
            BundleUnknown: there is no such bundle.
        """
        with self.database.writing() as session:
            row = session.get(BundleRow, bundle_id.hex)
            if row is None:
                raise BundleUnknown(f"no bundle {bundle_id} was accepted", bundle=bundle_id.hex)
            session.merge(SignatureRow(bundle_id=row.id, name=file, data=data))
            others = [known for known in row.signers if known["fingerprint"] != signer.fingerprint]
            row.signers = [*others, asdict(signer)]
            row.holders = sorted({*row.holders, signer.holder})

    def newest(self, name: str) -> int | None:
        """The highest version ever accepted under the name, deleted ones included."""
        with self.database.reading() as session:
            return session.scalar(select(NameRow.newest).where(NameRow.name == name))

    def get(self, bundle_id: Digest) -> Accepted | None:
        """The acceptance of a bundle, if it was accepted and not deleted."""
        with self.database.reading() as session:
            row = session.get(BundleRow, bundle_id.hex)
            return _accepted(row) if row else None

    def find(self, name: str, version: int | None = None) -> Accepted | None:
        """The acceptance of this version; or of the one that was accepted last, else of the highest that is there."""
        query = select(BundleRow).join(NameRow).where(BundleRow.name == name)
        query = query.order_by((BundleRow.id == NameRow.bundle).desc(), BundleRow.version.desc()).limit(1)
        if version is not None:
            query = query.where(BundleRow.version == version)
        with self.database.reading() as session:
            row = session.scalar(query)
            return _accepted(row) if row else None

    def all(self) -> tuple[Accepted, ...]:
        """Every accepted bundle, by name and version."""
        with self.database.reading() as session:
            rows = session.scalars(select(BundleRow).order_by(BundleRow.name, BundleRow.version))
            return tuple(map(_accepted, rows))

    def count(self) -> int:
        """How many bundles there are."""
        with self.database.reading() as session:
            return session.scalar(select(func.count()).select_from(BundleRow)) or 0

    def signatures(self, bundle_id: Digest) -> Mapping[str, bytes]:
        """The bundle's signature files by name."""
        with self.database.reading() as session:
            rows = session.scalars(select(SignatureRow).where(SignatureRow.bundle_id == bundle_id.hex))
            return {row.name: row.data for row in rows}

    def unused(self, digests: Collection[Digest]) -> frozenset[Digest]:
        """Those of the digests that no file of an accepted or pending bundle has."""
        asked = sorted(digest.hex for digest in digests)
        used: set[str] = set()
        with self.database.reading() as session:
            for start in range(0, len(asked), _BATCH):
                batch = asked[start : start + _BATCH]
                for digest in (FileRow.digest, PendingFileRow.digest):
                    used.update(session.scalars(select(digest).where(digest.in_(batch)).distinct()))
        return frozenset(Digest(text) for text in asked if text not in used)

    def users(self, blobs: Collection[str]) -> Mapping[Digest, str]:
        """The accepted bundles that have one of these blobs as a file, with that file's name."""
        asked, found = sorted(blobs), dict[Digest, str]()
        with self.database.reading() as session:
            for start in range(0, len(asked), _BATCH):
                rows = session.scalars(select(FileRow).where(FileRow.digest.in_(asked[start : start + _BATCH])))
                found.update((Digest(row.bundle_id), row.name) for row in rows)
        return found

    def names(self, blobs: Collection[Digest]) -> Mapping[Digest, frozenset[str]]:
        """The names of the accepted models that have these blobs as files; what nobody has is left out."""
        asked, found = sorted(digest.hex for digest in blobs), dict[Digest, frozenset[str]]()
        query = select(FileRow.digest, BundleRow.name).join(BundleRow, BundleRow.id == FileRow.bundle_id).distinct()
        with self.database.reading() as session:
            for start in range(0, len(asked), _BATCH):
                for digest, name in session.execute(query.where(FileRow.digest.in_(asked[start : start + _BATCH]))):
                    found[Digest(digest)] = found.get(Digest(digest), frozenset()) | {name}
        return found

    def remove(self, bundle_id: Digest) -> frozenset[Digest]:
        """Forget a bundle and the intention to serve it, not its version; the digests of its files.

        Raises:
            BundleUnknown: there is no such bundle.
        """
        with self.database.writing() as session:
            files = session.scalars(select(FileRow.digest).where(FileRow.bundle_id == bundle_id.hex).distinct())
            digests = frozenset(map(Digest, files))
            if not digests:  # every bundle has at least its bundle.json
                raise BundleUnknown(f"no bundle {bundle_id} was accepted", bundle=bundle_id.hex)
            session.execute(delete(BundleRow).where(BundleRow.id == bundle_id.hex))  # the database deletes its parts
            return digests

    def intend(self, name: str, version: int, instead_of: Collection[int] = ()) -> None:
        """Remember that a version was put into service after all others, and that some others no longer are.

        Raises:
            ModelUnknown: that version is not there.
        """
        with self.database.writing() as session:
            query = exists().where(BundleRow.name == name, BundleRow.version == version)
            if not session.scalar(select(query)):
                raise ModelUnknown(f"no version {version} of {name!r} was accepted", name=name, version=version)
            last = session.scalar(select(func.max(IntentionRow.turn)).where(IntentionRow.name == name)) or 0
            session.merge(IntentionRow(name=name, version=version, turn=last + 1))
            gone = (IntentionRow.name == name, IntentionRow.version.in_(instead_of))
            session.execute(delete(IntentionRow).where(*gone))

    def dismiss(self, name: str, version: int | None = None) -> None:
        """Remember that a version, or every one of a name, was taken out of service by hand."""
        with self.database.writing() as session:
            there = select(BundleRow.version).where(BundleRow.name == name)
            for number in session.scalars(there if version is None else there.where(BundleRow.version == version)):
                session.merge(IntentionRow(name=name, version=number, turn=0))

    def intended(self) -> Mapping[str, Mapping[int, int]]:
        """By name and version: the higher, the later it was put into service; 0 = it was taken out by hand."""
        turns: dict[str, dict[int, int]] = {}
        with self.database.reading() as session:
            for row in session.scalars(select(IntentionRow)):
                turns.setdefault(row.name, {})[row.version] = row.turn
        return turns


def _mark(session: Session, name: str) -> NameRow:
    """The name's version mark, locked until the transaction ends."""
    mark = session.get(NameRow, name, with_for_update=True)
    if mark is None:
        # PostgreSQL lets another upload enter the same new name at this moment, and then this waits for it.
        with suppress(IntegrityError), session.begin_nested():
            session.add(NameRow(name=name, newest=0))
        mark = session.get_one(NameRow, name, with_for_update=True)
    return mark


def _use_up(session: Session, permit: Digest | None, accepted: Accepted, mark: NameRow) -> None:
    """Use a permit for a bundle that is not above the mark; with the mark locked, nobody else does so now."""
    row = session.get(PermitRow, permit.hex) if permit else None
    if row is None or row.used_at is not None or row.source != mark.bundle:
        raise VersionStale(
            f"version {accepted.version} of {accepted.name!r} is not above {mark.newest}, accepted before",
            newest=mark.newest,
        )
    query = select(BundleRow.id).where(BundleRow.name == accepted.name, BundleRow.version == accepted.version)
    if twin := session.scalar(query):
        raise VersionStale(
            f"version {accepted.version} of {accepted.name!r} is bundle {twin}",
            hint="a permit makes room below the newest version, not in another bundle's place: delete that one first",
            newest=mark.newest,
        )
    row.used_at = accepted.accepted_at


def _row(bundle: Bundle, accepted: Accepted) -> BundleRow:
    return BundleRow(
        id=accepted.id.hex,
        name=accepted.name,
        version=accepted.version,
        release=accepted.release,
        accepted_at=accepted.accepted_at,
        size=accepted.size,
        rule=accepted.rule,
        threshold=accepted.threshold,
        holders=list(accepted.holders),
        signers=[asdict(signer) for signer in accepted.signers],
        unknown=list(accepted.unknown),
        reasons=[asdict(reason) for reason in accepted.reasons],
        payload=next(Envelope.parse(data, name).payload for name, data in bundle.signatures.items()),
        signatures=[SignatureRow(name=name, data=data) for name, data in bundle.signatures.items()],
        files=[FileRow(name=r.name, digest=r.digest.hex, size=r.size) for r in bundle.statement.resources],
    )


def _accepted(row: BundleRow) -> Accepted:
    return Accepted(
        id=Digest(row.id),
        name=row.name,
        version=row.version,
        release=row.release,
        accepted_at=row.accepted_at,
        size=row.size,
        signers=tuple(Signer(**signer) for signer in row.signers),
        unknown=tuple(row.unknown),
        rule=row.rule,
        holders=tuple(row.holders),
        threshold=row.threshold,
        reasons=tuple(Reason(**reason) for reason in row.reasons),
    )
