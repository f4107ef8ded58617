"""The transparency log: what happened, as a Merkle tree in the catalog's database, with every state of it signed.

An event and what it is about become durable in one transaction: entry, hashes and checkpoint, or nothing. There is no
way to change or remove an entry; whoever does it in the database is found out by the next auditor.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import and_, event, func, or_, select
from sqlalchemy.orm import Session

from sandseal_host.errors import StoreError
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.database import Database
from sandseal_host.registry.journal import NO_DETAIL, LoggedJournal
from sandseal_host.registry.tables import CatalogRow, LogCheckpointRow, LogEntryRow, LogNodeRow
from sandseal_signing.checkpoint import Checkpoint, open_checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.errors import AuditError, LogIncomplete, ProofInvalid
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.logentry import Detail, Kind, LogEntry, Role, Subject, sentence
from sandseal_signing.logproof import LogProof
from sandseal_signing.merkle import EMPTY_HEAD, Frontier, Subtree, consistency_proof, inclusion_proof, leaf_hash
from sandseal_signing.note import VerifierKey

MAX_PAGE = 256  # entries of 64 KiB at most


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry as it stands in the log, and the proof of it."""

    entry: bytes
    proof: LogProof


class TransparencyLog:
    """The host's log (a `Journal`); thread-safe.

    Args:
        catalog: in whose database it is; every host that writes there must hold the same key.
        key: signs the checkpoints.

    Raises:
        StoreError: the newest checkpoint is not by this key; or the database fails, then from every method too.
    """

    def __init__(self, catalog: Catalog, key: PrivateKey) -> None:
        self._database = catalog.database
        self._key = key
        self._lines = LoggedJournal()
        self.origin = f"sandseal/{catalog.identity}"
        self._guard = threading.Lock()
        with self._database.writing() as session:
            if _newest_size(session) is None:
                note = Checkpoint(self.origin, EMPTY_HEAD).sign(key)
                session.add(LogCheckpointRow(size=0, note=note))
        self._newest = self._own()

    @property
    def verifier(self) -> VerifierKey:
        """What auditors need to know of this log: its name and public key."""
        return VerifierKey(self.origin, self._key.public)

    def record(
        self, kind: Kind, actor: str, subject: Subject, detail: Detail = NO_DETAIL, *, session: Session | None = None
    ) -> None:
        """Append an entry, and write a log line; see `Journal`. Texts are made fit for an entry, whatever is in them.

        Raises:
            LogEntryInvalid: the subject is not one of this kind.
            LogIncomplete: hashes are missing in the database.
        """
        entry = LogEntry(kind, datetime.now(UTC), sentence(actor) or "nobody", subject, _fit(detail))
        self._lines.record(kind, entry.actor, subject, entry.detail)
        if session is not None:
            self._append(session, entry, self._key)
            return
        with self._database.writing() as own:
            self._append(own, entry, self._key)

    def rotate(self, role: Role, old: PrivateKey, new: PrivateKey, actor: str) -> None:
        """Replace a key of the host, from this entry on; a log key's own checkpoint is signed by both.

        Args:
            old: the key in force; that of the log itself for `Role.LOG`.

        Raises:
            StoreError: `old` is not in force.
        """
        known = self._key.public if role is Role.LOG else self.in_force(role)
        if known not in (None, old.public):
            raise StoreError(f"the key to be replaced is not the {role} key in force")
        entry = LogEntry.rotation(role, old, new, datetime.now(UTC), sentence(actor) or "nobody")
        signers = (old, new) if role is Role.LOG else (self._key,)
        with self._database.writing() as session:
            self._append(session, entry, *signers)
        if role is Role.LOG:
            self._key = new

    def in_force(self, role: Role) -> PublicKey | None:
        """See `key_in_force`."""
        return key_in_force(self._database, role)

    def checkpoint(self) -> bytes:
        """The newest signed checkpoint."""
        with self._database.reading() as session:
            return _note(session, _size(session))

    @property
    def state(self) -> Checkpoint:
        """What the newest checkpoint by this object says; touches no database."""
        return self._newest

    def entries(self, start: int, end: int) -> tuple[bytes, ...]:
        """Entries from number `start` on and before `end`, as stored; at most `MAX_PAGE` of them.

        Raises:
            ProofInvalid: there are no such entries.
            LogIncomplete: there should be.
        """
        with self._database.reading() as session:
            size = _size(session)
            if not 0 <= start < end <= size:
                raise ProofInvalid(f"there are no entries from {start} to {end} in a log of {size}", size=size)
            end = min(end, start + MAX_PAGE)
            within = LogEntryRow.number >= start, LogEntryRow.number < end
            found = tuple(session.scalars(select(LogEntryRow.data).where(*within).order_by(LogEntryRow.number)))
        if len(found) != end - start:
            raise LogIncomplete(f"the stored log lacks entries between {start} and {end}")
        return found

    def prove(self, number: int, size: int | None = None) -> LogProof:
        """The proof that an entry is in the log, under the checkpoint of this size; of the newest when None.

        Raises:
            ProofInvalid: there is no such entry or checkpoint.
            LogIncomplete: hashes are missing.
        """
        with self._database.reading() as session:
            return _prove(session, number, size)

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """The proof that the log of size `new` continues that of size `old`.

        Raises:
            ProofInvalid: these are not two sizes of the log, the smaller one first.
            LogIncomplete: hashes are missing.
        """
        with self._database.reading() as session:
            size = _size(session)
            if not 0 <= old <= new <= size:
                raise ProofInvalid(f"a log of {size} has no sizes {old} and {new} in this order", size=size)
            return consistency_proof(old, new, _Reader(session))

    def acceptance(self, bundle_id: Digest) -> Logged | None:
        """The entry by which a bundle was accepted, proven under the newest checkpoint; None where none is logged."""
        query = select(LogEntryRow).where(LogEntryRow.kind == Kind.ACCEPT, LogEntryRow.bundle == bundle_id.hex)
        with self._database.reading() as session:
            row = session.scalar(query.order_by(LogEntryRow.number).limit(1))
            return Logged(row.data, _prove(session, row.number, None)) if row else None

    def _append(self, session: Session, entry: LogEntry, *keys: PrivateKey) -> None:
        # Who appends, holds this row until the transaction's end: PostgreSQL lets several write at a time.
        session.scalars(select(CatalogRow.identity).with_for_update()).one()
        size, data, bundle = _size(session), entry.render(), entry.subject.bundle
        frontier, completed = Frontier.load(size, _Reader(session)).append(leaf_hash(data))
        session.add(LogEntryRow(number=size, kind=entry.kind, bundle=bundle.hex if bundle else None, data=data))
        session.add_all(LogNodeRow(level=at.level, position=at.position, hash=value) for at, value in completed.items())
        checkpoint = Checkpoint(self.origin, frontier.head)
        session.add(LogCheckpointRow(size=frontier.size, note=checkpoint.sign(*keys)))
        session.flush()
        event.listen(session, "after_commit", lambda session: self._committed(session, checkpoint))

    def _committed(self, session: Session, checkpoint: Checkpoint) -> None:
        with self._guard:  # threads may come here in another order than their transactions ended
            if not session.in_nested_transaction() and checkpoint.head.size > self._newest.head.size:
                self._newest = checkpoint

    def _own(self) -> Checkpoint:
        try:
            return open_checkpoint(self.checkpoint(), self.verifier)
        except AuditError as error:
            raise StoreError(
                f"the log key is not the one that signed the newest checkpoint of {self.origin}: {error.message}",
                hint="put the log's key back into the data folder from a copy; nobody can continue the log without it",
            ) from None


def key_in_force(database: Database, role: Role) -> PublicKey | None:
    """The key that the log's newest rotation of this role brought; None when there was none."""
    query = select(LogEntryRow.data).where(LogEntryRow.kind == Kind.KEY_ROTATION)
    with database.reading() as session:
        for data in session.scalars(query.order_by(LogEntryRow.number.desc())):
            subject = LogEntry.parse(data).subject
            if subject.role is role:
                return subject.new
    return None


class _Reader:
    """Looks up stored hashes (merkle's `Read`) in one query."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self, subtrees: Sequence[Subtree]) -> Mapping[Subtree, bytes]:
        if not subtrees:
            return {}
        # SQLite scans the whole table for a row value in a list of them.
        wanted = [and_(LogNodeRow.level == at.level, LogNodeRow.position == at.position) for at in subtrees]
        rows = self._session.execute(select(LogNodeRow.level, LogNodeRow.position, LogNodeRow.hash).where(or_(*wanted)))
        return {Subtree(level, position): value for level, position, value in rows}


def _newest_size(session: Session) -> int | None:
    return session.scalar(select(func.max(LogCheckpointRow.size)))


def _size(session: Session) -> int:
    size = _newest_size(session)
    if size is None:
        raise LogIncomplete("the stored log has no checkpoint")
    return size


def _note(session: Session, size: int) -> bytes:
    note = session.scalar(select(LogCheckpointRow.note).where(LogCheckpointRow.size == size))
    if note is None:
        raise LogIncomplete(f"the stored log has no checkpoint of size {size}")
    return note


def _prove(session: Session, number: int, size: int | None) -> LogProof:
    newest = _size(session)
    size = newest if size is None else size
    if not 0 <= number < size <= newest:
        raise ProofInvalid(f"there is no entry {number} in a log of {size}, whose size is now {newest}", size=newest)
    return LogProof(number, inclusion_proof(number, size, _Reader(session)), _note(session, size))


def _fit(detail: Detail) -> Detail:
    return replace(
        detail,
        reason=sentence(detail.reason or "") or None,
        device=sentence(detail.device or "") or None,
        holders=tuple(map(sentence, detail.holders)),
    )
