"""Bundles for which more holders must sign: kept for a while, within a quota of each publisher."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from sandseal_host.errors import QuotaExceeded
from sandseal_host.registry.acceptance import Signer
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.tables import PendingFileRow, PendingRow, PendingSignatureRow
from sandseal_signing.digest import Digest
from sandseal_signing.logentry import Subject
from sandseal_signing.statement import Statement
from sandseal_signing.verdict import Reason, State, Verdict

MAX_PENDING = 100
"""Bundles of one publisher, since all of them are judged again at every change of the policy."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A bundle that is stored and waits for signatures; nothing of it but bundle.json was looked into.

    Args:
        publisher: whose quota it counts against.
        size: bytes of all signed files together.
        expires_at: when it is deleted.
        signers: the enrolled keys whose signatures verified.
        verdict: what the policy said when it was last judged; see `Registry.pending` for the present.
    """

    id: Digest
    name: str
    version: int
    release: str
    publisher: str
    size: int
    uploaded_at: datetime
    expires_at: datetime
    signers: tuple[Signer, ...]
    verdict: Verdict

    @property
    def subject(self) -> Subject:
        """How log entries name it."""
        return Subject(bundle=self.id, name=self.name, version=self.version)

    @property
    def detail(self) -> str:
        """How many of how many holders signed and who may still do so; or why it will never be accepted."""
        against = "; ".join(reason.detail for reason in self.verdict.reasons if not reason.holds)
        return against or "enough holders signed for the policy of now: push it, or any signature of it, again"

    @property
    def refused(self) -> bool:
        """Whether more signatures would not have it accepted under the policy that it was judged by."""
        return self.verdict.state is State.REFUSED


class PendingBundles:
    """The pending bundles in the catalog, 100 of a publisher at most; thread-safe. One that has expired is not there.

    Args:
        catalog: keeps them.
        quota: bytes that one publisher's may have together.

    Raises:
        StoreError: the catalog cannot be used; so from every method.
    """

    def __init__(self, catalog: Catalog, quota: int) -> None:
        self._database = catalog.database
        self._quota = quota

    def get(self, bundle_id: Digest) -> Pending | None:
        """The pending bundle of this id."""
        with self._database.reading() as session:
            row = session.get(PendingRow, bundle_id.hex)
            return _pending(row) if row and row.expires_at > datetime.now(UTC) else None

    def all(self) -> tuple[Pending, ...]:
        """Every pending bundle, by name, version and time."""
        query = select(PendingRow).where(PendingRow.expires_at > datetime.now(UTC))
        query = query.order_by(PendingRow.name, PendingRow.version, PendingRow.uploaded_at)
        with self._database.reading() as session:
            return tuple(map(_pending, session.scalars(query)))

    def signatures(self, bundle_id: Digest) -> Mapping[str, bytes]:
        """The bundle's signature files by name; none when it is not pending."""
        query = select(PendingSignatureRow).where(PendingSignatureRow.bundle_id == bundle_id.hex)
        with self._database.reading() as session:
            return {row.name: row.data for row in session.scalars(query)}

    def require_room(self, publisher: str, bundle_id: Digest, size: int) -> None:
        """Check that a publisher's pending bundles stay within the quota with this one.

        Raises:
            QuotaExceeded: with the figures.
        """
        with self._database.reading() as session:
            self._check(session, publisher, bundle_id, size)

    def put(
        self,
        pending: Pending,
        statement: Statement,
        signatures: Mapping[str, bytes],
        noted: Callable[[Session], None],
    ) -> None:
        """Keep a bundle, or another state of one that is kept already.

        Args:
            noted: called within the transaction.

        Raises:
            QuotaExceeded: another upload of the same publisher was quicker.
        """
        with self._database.writing() as session:
            self._check(session, pending.publisher, pending.id, pending.size)
            session.merge(_row(pending, statement, signatures))
            noted(session)

    def remove(self, bundle_id: Digest) -> frozenset[Digest]:
        """Forget a bundle; the digests of its files, none when it was not there."""
        with self._database.writing() as session:
            row = session.get(PendingRow, bundle_id.hex)
            return _delete(session, row) if row else frozenset()

    def expire(self) -> frozenset[Digest]:
        """Forget the bundles whose time is over; the digests of their files."""
        with self._database.writing() as session:
            rows = session.scalars(select(PendingRow).where(PendingRow.expires_at <= datetime.now(UTC))).all()
            return frozenset[Digest]().union(*(_delete(session, row) for row in rows))

    def _check(self, session: Session, publisher: str, bundle_id: Digest, size: int) -> None:
        query = select(func.count(), func.coalesce(func.sum(PendingRow.size), 0))
        query = query.where(PendingRow.publisher == publisher, PendingRow.id != bundle_id.hex)
        count, used = session.execute(query).one()
        if count >= MAX_PENDING:
            raise QuotaExceeded(f"{publisher!r} has {count} bundles waiting for signatures", limit=MAX_PENDING)
        if used + size > self._quota:
            raise QuotaExceeded(
                f"{publisher!r} has {used} bytes waiting for signatures; {size} more are over {self._quota}",
                used=used,
                size=size,
                limit=self._quota,
            )


def _delete(session: Session, row: PendingRow) -> frozenset[Digest]:
    digests = frozenset(Digest(file.digest) for file in row.files)
    session.delete(row)
    return digests


def _row(pending: Pending, statement: Statement, signatures: Mapping[str, bytes]) -> PendingRow:
    mark = pending.id.hex
    return PendingRow(
        id=mark,
        name=pending.name,
        version=pending.version,
        release=pending.release,
        publisher=pending.publisher,
        size=pending.size,
        uploaded_at=pending.uploaded_at,
        expires_at=pending.expires_at,
        signers=[asdict(signer) for signer in pending.signers],
        verdict=pending.verdict.as_data(),
        signatures=[PendingSignatureRow(bundle_id=mark, name=name, data=data) for name, data in signatures.items()],
        files=[PendingFileRow(bundle_id=mark, name=r.name, digest=r.digest.hex) for r in statement.resources],
    )


def _pending(row: PendingRow) -> Pending:
    return Pending(
        id=Digest(row.id),
        name=row.name,
        version=row.version,
        release=row.release,
        publisher=row.publisher,
        size=row.size,
        uploaded_at=row.uploaded_at,
        expires_at=row.expires_at,
        signers=tuple(Signer(**signer) for signer in row.signers),
        verdict=_verdict(row.verdict),
    )


def _verdict(data: Mapping[str, Any]) -> Verdict:
    reasons = tuple(Reason(**reason) for reason in data["reasons"])
    return Verdict(State(data["state"]), data["rule"], tuple(data["holders"]), data["threshold"], reasons)
