"""An auditor of hosts' logs: looks at what a host shows now, against what was seen before, and trusts none of it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sandseal_signing.auditor import AuditState, advance, appended, rotate
from sandseal_signing.checkpoint import Checkpoint, open_checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.errors import AuditStateInvalid, LogInconsistent, LogUnknown, NoteInvalid, ProofInvalid
from sandseal_signing.logentry import Kind, LogEntry, Role
from sandseal_signing.logproof import LogProof
from sandseal_signing.merkle import TreeHead
from sandseal_signing.note import Note, NoteSignature, VerifierKey


class LogSource(Protocol):
    """Where a log is read from; what it gives out is not believed."""

    def checkpoint(self) -> bytes:
        """The newest checkpoint."""
        ...

    def entries(self, start: int, end: int) -> Iterator[bytes]:
        """The entries from number `start` on and before `end`."""
        ...

    def proof(self, number: int, size: int) -> bytes:
        """That an entry is in the log of this size, as a tlog-proof."""
        ...

    def consistency(self, old: int, new: int) -> Sequence[bytes]:
        """That the log of size `new` continues that of size `old`."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a log found; that it exists means that the log continues what was seen before.

    Args:
        state: what the auditor remembers from now on.
        origin: of the log.
        before: its head as it was known.
        after: its head now.
        entries: what was appended in between; all of it, in order.
    """

    state: AuditState
    origin: str
    before: TreeHead
    after: TreeHead
    entries: tuple[LogEntry, ...]


def look(source: LogSource, state: AuditState) -> Look:
    """Look at a log that the state watches; follows replacements of its key.

    Raises:
        LogUnknown: the host shows a log that is not watched.
        LogInconsistent: it is not what it was; both checkpoints are in the error's data.
        AuditError: something that it shows does not hold.
    """
    note = source.checkpoint()
    claimed = Checkpoint.parse(Note.parse(note).text)
    origin, entries = claimed.origin, list[LogEntry]()
    before = state.log(origin).head
    while not _is_by(note, state.log(origin).key):
        state, new = _follow_rotation(source, state, origin, claimed.head.size)
        entries += new
    state, new = _follow(source, state, origin, note)
    return Look(state, origin, before, state.log(origin).head, (*entries, *new))


def _is_by(note: bytes, key: VerifierKey) -> bool:
    def mine(line: NoteSignature) -> bool:
        return (line.name, line.key_id) == (key.name, key.id)

    return any(map(mine, Note.parse(note).signatures))


def _follow(source: LogSource, state: AuditState, origin: str, note: bytes) -> tuple[AuditState, tuple[LogEntry, ...]]:
    """The state after a checkpoint by the key that is known, and what was appended until then."""
    log = state.log(origin)
    old, new = log.head, open_checkpoint(note, log.key).head
    proof = source.consistency(old.size, new.size) if old.size < new.size else ()
    state = advance(state, note, proof)
    if old == new:
        return state, ()
    return state, appended(old, new, proof, list(source.entries(old.size, new.size)))


def _follow_rotation(
    source: LogSource, state: AuditState, origin: str, size: int
) -> tuple[AuditState, tuple[LogEntry, ...]]:
    """The state after the first replacement of the key that is known, and what was appended until then."""
    log = state.log(origin)
    start = max(log.head.size - 1, 0)  # the newest entry seen may be the one that replaced the key
    for number, data in enumerate(source.entries(start, size), start):
        entry = LogEntry.parse(data)
        subject = entry.subject
        if entry.kind is Kind.KEY_ROTATION and subject.role is Role.LOG and subject.old == log.key.public:
            proof = source.proof(number, number + 1)
            state, new = _follow(source, state, origin, LogProof.parse(proof).checkpoint)
            return rotate(state, data, proof), new
    raise NoteInvalid(f"the checkpoint is not by {log.key.render()}, and no entry of the log replaces this key")


def check_acceptance(state: AuditState, answer: Mapping[str, Any], bundle_id: Digest) -> str:
    """Check what an upload's answer says of the log, as far as the log's key is known; one sentence on that.

    Args:
        answer: the host's, with `index`, `entry` and `proof` in `log`.
        bundle_id: of what was sent, by its own bytes.

    Raises:
        AuditError: the proof does not show that the bundle's acceptance was logged.
    """
    logged = answer.get("log")
    if not logged:
        return "the host did not say where this is in its log"
    entry, proof = logged["entry"].encode(), LogProof.parse(logged["proof"].encode())
    origin = Checkpoint.parse(Note.parse(proof.checkpoint).text).origin
    try:
        known = state.log(origin)
    except LogUnknown:
        return f"logged as entry {proof.index} of {origin}; not verified, since that log's key is not known here"
    proof.verify(entry, known.key)
    said = LogEntry.parse(entry)
    if said.kind is not Kind.ACCEPT or said.subject.bundle != bundle_id:
        raise ProofInvalid(f"entry {proof.index} of {origin} is not the acceptance of bundle {bundle_id}")
    return f"logged as entry {proof.index} of {origin}; the proof verifies"


def read_state(path: Path) -> AuditState:
    """The auditor's state in a file; an empty one where there is none yet.

    Raises:
        AuditStateInvalid: unreadable, or no such state.
    """
    try:
        return AuditState.parse(path.read_bytes())
    except FileNotFoundError:
        return AuditState()
    except OSError as error:
        raise AuditStateInvalid(f"cannot read {path}: {error.strerror}") from None


def write_state(path: Path, state: AuditState) -> None:
    """Keep the auditor's state: the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        file.write(state.render())
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def keep_evidence(path: Path, error: LogInconsistent) -> tuple[Path, ...]:
    """Write the two checkpoints that contradict each other beside the state; never over others."""
    number = next(n for n in range(1, 1_000_000) if not path.with_name(f"{path.stem}-{n}-known.note").exists())
    kept = []
    for name in ("known", "shown"):
        place = path.with_name(f"{path.stem}-{number}-{name}.note")
        place.write_text(error.data[name], encoding="utf-8")
        kept.append(place)
    return tuple(kept)
