"""What was revoked, for ever: key fingerprints, bundle ids, blob digests, each with who, when and why."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from sqlalchemy import select

from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.journal import Journal
from sandseal_host.registry.tables import RevocationRow
from sandseal_signing.digest import Digest
from sandseal_signing.logentry import Detail, Kind, Subject, sentence
from sandseal_signing.trust import Revoked


class Target(StrEnum):
    """What a revocation is about."""

    KEY = "key"
    BUNDLE = "bundle"
    BLOB = "blob"


@dataclass(frozen=True, slots=True)
class Revocation:
    """One revocation.

    Args:
        target: what `digest` is of.
        digest: a key's fingerprint, a bundle's id, or a file's SHA-256.
        actor: who revoked it.
        reason: why; empty when nobody said.
    """

    target: Target
    digest: Digest
    actor: str
    reason: str
    at: datetime


class Revocations:
    """The revocations in the catalog; thread-safe. There is no way to take one back.

    Args:
        catalog: keeps them.
        journal: is told of each.

    Raises:
        StoreError: the catalog cannot be used; so from every method.
    """

    def __init__(self, catalog: Catalog, journal: Journal) -> None:
        self._database = catalog.database
        self._journal = journal
        self._guard = threading.Lock()
        self._known = {(entry.target, entry.digest) for entry in self.all()}

    def all(self) -> tuple[Revocation, ...]:
        """Every revocation, oldest first."""
        with self._database.reading() as session:
            rows = session.scalars(select(RevocationRow).order_by(RevocationRow.at, RevocationRow.digest))
            return tuple(Revocation(Target(r.target), Digest(r.digest), r.actor, r.reason, r.at) for r in rows)

    def add(self, wanted: Iterable[tuple[Target, Digest]], actor: str, reason: str = "") -> bool:
        """Revoke; what is revoked already stays as it was.

        Returns:
            Whether any of it is new.
        """
        with self._guard:
            fresh = [one for one in wanted if one not in self._known]
            if fresh:
                self._write(fresh, actor, reason)
                self._known.update(fresh)
        return bool(fresh)

    def unite(self, revoked: Revoked) -> Revoked:
        """These and all that are kept."""
        with self._guard:
            mine = {target: {d.hex for kind, d in self._known if kind is target} for target in Target}
        return Revoked(
            revoked.keys | mine[Target.KEY], revoked.bundles | mine[Target.BUNDLE], revoked.blobs | mine[Target.BLOB]
        )

    def _write(self, fresh: list[tuple[Target, Digest]], actor: str, reason: str) -> None:
        now = datetime.now(UTC)
        with self._database.writing() as session:
            for target, digest in fresh:
                session.add(RevocationRow(target=target, digest=digest.hex, actor=actor, reason=reason, at=now))
                detail = Detail(reason=sentence(reason) or None)
                self._journal.record(Kind.REVOKE, actor, _subject(target, digest), detail, session=session)


def _subject(target: Target, digest: Digest) -> Subject:
    match target:
        case Target.KEY:
            return Subject(key=digest)
        case Target.BUNDLE:
            return Subject(bundle=digest)
        case Target.BLOB:
            return Subject(blob=digest)


def targets_of(revoked: Revoked) -> list[tuple[Target, Digest]]:
    """A policy's list as revocations are made of it."""
    lists = ((Target.KEY, revoked.keys), (Target.BUNDLE, revoked.bundles), (Target.BLOB, revoked.blobs))
    return [(target, Digest(text)) for target, texts in lists for text in sorted(texts)]
