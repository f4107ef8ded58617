"""An auditor's memory of logs, and what a new checkpoint does to it: the log must have grown, and nothing else.

The auditor keeps one small file and needs no database, no network of its own and no trust in the host. What this can
show and what it cannot is said in `BLIND_SPOTS`; print it beside every result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sandseal_signing.checkpoint import open_checkpoint
from sandseal_signing.errors import (
    AuditStateInvalid,
    KeyInvalid,
    LogForked,
    LogRewritten,
    LogShrunk,
    LogUnknown,
    ProofInvalid,
    SigningError,
)
from sandseal_signing.logentry import LogEntry, Role
from sandseal_signing.logproof import LogProof
from sandseal_signing.merkle import EMPTY_HEAD, TreeHead, frontier_of, leaf_hash, verify_consistency
from sandseal_signing.note import Note, VerifierKey
from sandseal_signing.receipt import Receipt
from sandseal_signing.schema import Node, canonical_json, parse_json

SCHEMA = "sandseal.audit/1"
MAX_BYTES = 16 << 20

BLIND_SPOTS = (
    "The host may show others a second log: compare checkpoints with other auditors, or have witnesses cosign them.",
    "The host may leave out what it did: a log shows that nothing in it was taken back, not that everything is in it.",
    "The host may have rewritten the log before this auditor's first checkpoint of it.",
    "The host may go on showing an old checkpoint: a checkpoint carries no time.",
    "An entry's time, actor and detail are what the host said when it wrote the entry.",
    "Whoever has the log's private key can do all this in the host's name.",
)
"""What an auditor without outside witnesses cannot see, one sentence each."""


@dataclass(frozen=True, slots=True)
class WatchedLog:
    """What an auditor knows of one log.

    Args:
        key: the log's, got from its operator by a way that the auditor trusts; its name is the log's origin.
        note: the newest checkpoint seen, as signed; empty before the first.
    """

    key: VerifierKey
    note: bytes = b""

    @property
    def head(self) -> TreeHead:
        """Size and root at the newest checkpoint seen.

        Raises:
            NoteInvalid, CheckpointInvalid: the note is not one by this log's key.
        """
        return open_checkpoint(self.note, self.key).head if self.note else EMPTY_HEAD

    def _members(self) -> dict[str, str]:
        seen = {"checkpoint": self.note.decode()} if self.note else {}
        return {"key": self.key.render(), **seen}


@dataclass(frozen=True, slots=True)
class AuditState:
    """All logs that an auditor watches, each origin once, in the order of their origins."""

    logs: tuple[WatchedLog, ...] = ()

    def log(self, origin: str) -> WatchedLog:
        """The log of this origin.

        Raises:
            LogUnknown: it is not watched.
        """
        for log in self.logs:
            if log.key.name == origin:
                return log
        raise LogUnknown(f"no key is known for the log {origin[:200]!r}", origin=origin[:200])

    def watch(self, key: VerifierKey) -> "AuditState":
        """The state with one more log, nothing of which has been seen yet.

        Raises:
            KeyInvalid: a log of this origin is watched already, maybe under another key.
        """
        if any(log.key.name == key.name for log in self.logs):
            raise KeyInvalid(f"the log {key.name!r} is watched already", hint="its key changes by `rotate` only")
        return self._with(WatchedLog(key))

    def _with(self, log: WatchedLog) -> "AuditState":
        others = (other for other in self.logs if other.key.name != log.key.name)
        return AuditState(tuple(sorted((*others, log), key=lambda log: log.key.name)))

    def render(self) -> bytes:
        """The state's file, as canonical JSON."""
        return canonical_json({"schema": SCHEMA, "logs": [log._members() for log in self.logs]})

    @classmethod
    def parse(cls, data: bytes) -> "AuditState":
        """Read a state's file; its checkpoints are verified again.

        Raises:
            AuditStateInvalid: not strict JSON, not schema sandseal.audit/1, or not what `render` wrote.
        """
        try:
            if len(data) > MAX_BYTES:
                raise AuditStateInvalid(f"the auditor's state has {len(data)} bytes, over {MAX_BYTES}")
            state = _parse(Node(parse_json(data, "audit state"), "", AuditStateInvalid))
        except SigningError as error:
            raise AuditStateInvalid(error.message, **error.data) from None
        if state.render() != data:
            raise AuditStateInvalid("the auditor's state is not in canonical form")
        return state


def advance(state: AuditState, note: bytes, proof: Sequence[bytes] = ()) -> AuditState:
    """The state after a look at a log's newest checkpoint.

    Args:
        note: the signed checkpoint.
        proof: the consistency proof from the size in `state` to that of the checkpoint; empty the first time.

    Raises:
        NoteInvalid, CheckpointInvalid, LogUnknown: it is not a checkpoint of a log that is watched.
        LogShrunk, LogForked, LogRewritten: it does not continue what was seen; both notes are in the error's data.
    """
    log = state.log(_claimed_origin(note))
    shown = open_checkpoint(note, log.key).head
    if shown == log.head:
        return state
    _require_growth(log.head, shown, proof, known=log.note.decode(), shown=note.decode())
    return state._with(replace(log, note=note))


def rotate(state: AuditState, entry: bytes, proof: bytes, consistency: Sequence[bytes] = ()) -> AuditState:
    """The state after a log replaced its key; at that one checkpoint, the old and the new key sign together.

    Args:
        entry: the log's key rotation, as it stands in the log.
        proof: that it stands there, as `LogProof` writes it, under the checkpoint that both keys signed.
        consistency: the proof from the size in `state` to that checkpoint's.

    Raises:
        AuditError: as `advance`; or the entry is not there, or does not replace the key that is known.
    """
    rotation, shown = LogEntry.parse(entry), LogProof.parse(proof)
    state = advance(state, shown.checkpoint, consistency)
    log = state.log(_claimed_origin(shown.checkpoint))
    shown.verify(entry, log.key)
    subject = rotation.subject
    if subject.role is not Role.LOG or subject.old != log.key.public or not subject.new:
        raise ProofInvalid(f"this entry does not replace the key {log.key.render()}")
    new = VerifierKey(log.key.name, subject.new)
    shown.verify(entry, new)
    return state._with(WatchedLog(new, shown.checkpoint))


def appended(old: TreeHead, new: TreeHead, proof: Sequence[bytes], entries: Sequence[bytes]) -> tuple[LogEntry, ...]:
    """The entries by which a log grew: all of them, in order, and none else; from `EMPTY_HEAD` on, the whole log.

    Args:
        old, new: two different heads of the log, both out of verified checkpoints.
        proof: the consistency proof between them.
        entries: as the log's host gave them out.

    Raises:
        ProofInvalid: the log grew by other entries.
        JsonInvalid, LogEntryInvalid: the log holds an entry that is none.
    """
    if len(entries) != new.size - old.size:
        raise ProofInvalid(f"there are {len(entries)} entries, the log grew by {new.size - old.size}")
    frontier = frontier_of(old, new.size, proof)
    for entry in entries:
        frontier, _ = frontier.append(leaf_hash(entry))
    if frontier.head != new:
        raise ProofInvalid(f"the entries from {old.size} on are not those that the checkpoint of {new.size} covers")
    return tuple(map(LogEntry.parse, entries))


def check_receipt(state: AuditState, receipt: Receipt, proof: Sequence[bytes] = ()) -> None:
    """Check that the log which a verified receipt speaks of is the one that the auditor saw, and no other.

    Args:
        proof: the consistency proof between the receipt's size and that in `state`, whichever is smaller first.

    Raises:
        LogUnknown: the log is not watched.
        LogForked, LogRewritten: the host showed its client another log.
    """
    log = state.log(receipt.log.origin)
    older, newer = sorted((log.head, receipt.log.head), key=lambda head: head.size)
    _require_growth(older, newer, proof, known=log.note.decode(), shown=receipt.log.render())


def _require_growth(old: TreeHead, new: TreeHead, proof: Sequence[bytes], **evidence: str) -> None:
    if new.size < old.size:
        raise LogShrunk(f"the log has {new.size} entries where it had {old.size}", **evidence)
    if new.size == old.size and new != old:
        raise LogForked(f"the log has two different states of {new.size} entries", **evidence)
    try:
        verify_consistency(old, new, proof)
    except ProofInvalid as error:
        raise LogRewritten(
            f"nothing shows that the log of {new.size} entries continues the one of {old.size}: {error.message}",
            **evidence,
        ) from None


def _claimed_origin(note: bytes) -> str:
    """Whose checkpoint it says it is; decides only by which key it is verified."""
    return Note.parse(note).text.partition("\n")[0]


def _parse(root: Node) -> AuditState:
    root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
    logs = tuple(map(_watched, root.children("logs")))
    root.close()
    origins = [log.key.name for log in logs]
    if origins != sorted(set(origins)):
        root.fail("logs", "must stand in the order of their origins, each once")
    return AuditState(logs)


def _watched(node: Node) -> WatchedLog:
    log = WatchedLog(VerifierKey.parse(node.text("key")), node.text("checkpoint", "").encode())
    node.close()
    _ = log.head  # verifies the checkpoint
    return log
