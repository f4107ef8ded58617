import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing import auditor
from sandseal_signing.auditor import AuditState, WatchedLog, advance, appended, check_receipt, rotate
from sandseal_signing.checkpoint import Checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.errors import (
    AuditStateInvalid,
    CheckpointInvalid,
    JsonInvalid,
    KeyInvalid,
    LogEntryInvalid,
    LogForked,
    LogInconsistent,
    LogRewritten,
    LogShrunk,
    LogUnknown,
    NoteInvalid,
    ProofInvalid,
)
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Kind, LogEntry, Role, Subject
from sandseal_signing.logproof import LogProof
from sandseal_signing.merkle import (
    EMPTY_HEAD,
    MerkleTree,
    TreeHead,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    tree_head,
)
from sandseal_signing.note import Note, VerifierKey
from sandseal_signing.receipt import Receipt
from support.keys import ed25519_key

ORIGIN = "example.com/log"
OLD, NEW, RECEIPTS = ed25519_key("log"), ed25519_key("new log"), ed25519_key("receipts")
KEY = VerifierKey(ORIGIN, OLD.public)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
NOTHING = AuditState().watch(KEY)


class Log:
    """A host's log, in memory, as honest as the test that appends to it."""

    def __init__(self, entries: Sequence[bytes] = ()) -> None:
        self.entries = [*entries]
        self.tree = MerkleTree(map(leaf_hash, entries))

    def append(self, *entries: bytes) -> "Log":
        for entry in entries:
            self.entries.append(entry)
            self.tree.append(leaf_hash(entry))
        return self

    def head(self, size: int | None = None) -> TreeHead:
        return tree_head(len(self.entries) if size is None else size, self.tree.read)

    def note(self, size: int | None = None, *keys: PrivateKey) -> bytes:
        return Checkpoint(ORIGIN, self.head(size)).sign(*(keys or (OLD,)))

    def consistency(self, old: int, new: int | None = None) -> tuple[bytes, ...]:
        return consistency_proof(old, len(self.entries) if new is None else new, self.tree.read)

    def proof(self, index: int, *keys: PrivateKey) -> bytes:
        size = len(self.entries)
        return LogProof(index, inclusion_proof(index, size, self.tree.read), self.note(size, *keys)).render()


def entries(count: int, actor: str = "host") -> list[bytes]:
    subject = Subject(bundle=Digest.of(b"statement"), name="acme.tiny", version=1)
    return [LogEntry(Kind.LOAD, NOON, f"{actor} {i}", subject).render() for i in range(count)]


LOG = Log(entries(10))
SEEN = advance(NOTHING, LOG.note(4))


def test_the_first_checkpoint_is_taken_at_its_word() -> None:
    assert SEEN.log(ORIGIN) == WatchedLog(KEY, LOG.note(4))
    assert SEEN.log(ORIGIN).head == LOG.head(4)
    assert NOTHING.log(ORIGIN).head == EMPTY_HEAD


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 10), min_size=1, max_size=8).map(sorted))
def test_a_log_that_grows_is_followed(sizes: list[int]) -> None:
    state, known = NOTHING, 0
    for size in sizes:
        state = advance(state, LOG.note(size), LOG.consistency(known, size))
        known = size
        assert state.log(ORIGIN).head == LOG.head(size)


def test_the_same_checkpoint_again_changes_nothing() -> None:
    assert advance(SEEN, LOG.note(4)) is SEEN


def test_a_shrunk_log_is_caught() -> None:
    with pytest.raises(LogShrunk, match="the log has 3 entries where it had 4") as caught:
        advance(SEEN, LOG.note(3), LOG.consistency(3, 4))
    assert caught.value.data == {"known": LOG.note(4).decode(), "shown": LOG.note(3).decode()}


def test_a_forked_log_is_caught_by_two_checkpoints_alone() -> None:
    fork = Log(LOG.entries[:3] + entries(1, "somebody"))
    with pytest.raises(LogForked, match="two different states of 4 entries") as caught:
        advance(SEEN, fork.note(4))
    for note in caught.value.data.values():  # what the data holds convinces anybody who has the key
        assert Note.parse(note.encode()).verify(KEY)


@pytest.mark.parametrize("changed", range(4))
def test_a_rewritten_log_is_caught(changed: int) -> None:
    other = Log(LOG.entries[:changed] + entries(1, "somebody") + LOG.entries[changed + 1 :])
    for proof in (other.consistency(4), LOG.consistency(4), ()):
        with pytest.raises(LogRewritten, match="nothing shows that the log of 10 entries continues the one of 4"):
            advance(SEEN, other.note(), proof)


def test_what_came_after_the_last_look_may_differ() -> None:
    other = Log(LOG.entries[:4] + entries(6, "somebody"))
    assert advance(SEEN, other.note(), other.consistency(4)).log(ORIGIN).head == other.head()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 10), st.integers(1, 10), st.integers(0, 9))
def test_no_rewriting_of_what_was_seen_goes_unnoticed(known: int, size: int, changed: int) -> None:
    other = Log(LOG.entries[:changed] + entries(1, "somebody") + LOG.entries[changed + 1 :])
    state = advance(NOTHING, LOG.note(known))
    proof = other.consistency(known, size) if known <= size else ()
    if known <= size and changed >= known:
        advance(state, other.note(size), proof)
    else:
        with pytest.raises(LogInconsistent):
            advance(state, other.note(size), proof)


def test_checkpoints_by_others_change_nothing() -> None:
    with pytest.raises(NoteInvalid, match="is not signed by"):
        advance(SEEN, LOG.note(10, NEW), LOG.consistency(4))
    with pytest.raises(LogUnknown, match=r"no key is known for the log 'example\.com/other'"):
        advance(SEEN, Checkpoint("example.com/other", LOG.head()).sign(OLD))
    with pytest.raises(CheckpointInvalid):
        advance(SEEN, Note(f"{ORIGIN}\nno checkpoint\n").sign(ORIGIN, OLD).render())
    with pytest.raises(NoteInvalid):
        advance(SEEN, b"")


# Several logs, and the file.


def test_logs_are_followed_one_by_one() -> None:
    other = VerifierKey("another.example", NEW.public)
    state = SEEN.watch(other)
    assert [log.key.name for log in state.logs] == ["another.example", ORIGIN]
    state = advance(state, Checkpoint(other.name, LOG.head(2)).sign(NEW))
    assert (state.log(other.name).head, state.log(ORIGIN).head) == (LOG.head(2), LOG.head(4))
    assert AuditState.parse(state.render()) == state


def test_a_log_s_key_does_not_change_by_watching_it_again() -> None:
    with pytest.raises(KeyInvalid, match="is watched already"):
        SEEN.watch(VerifierKey(ORIGIN, NEW.public))


def test_the_state_is_a_file_that_people_can_read() -> None:
    assert json.loads(SEEN.render()) == {
        "schema": "sandseal.audit/1",
        "logs": [{"key": KEY.render(), "checkpoint": LOG.note(4).decode()}],
    }
    assert json.loads(NOTHING.render())["logs"] == [{"key": KEY.render()}]
    assert AuditState.parse(AuditState().render()) == AuditState()


def state_file(*logs: Mapping[str, object], **members: object) -> bytes:
    return json.dumps(
        {"schema": "sandseal.audit/1", "logs": logs} | members,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


SEEN_LOG = {"key": KEY.render(), "checkpoint": LOG.note(4).decode()}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not strict JSON"),
        (b"[]", "must be an object"),
        (state_file(schema="sandseal.audit/2"), "schema: must be"),
        (state_file(extra=1), "extra: is not a member"),
        (state_file(logs={}), "logs: must be a list"),
        (state_file({}), "key: is missing"),
        (state_file({"key": "x"}), "is not a verifier key"),
        (state_file(SEEN_LOG | {"extra": 1}), "extra: is not a member"),
        (state_file(SEEN_LOG | {"checkpoint": ""}), "checkpoint: must be a non-empty string"),
        (state_file(SEEN_LOG | {"checkpoint": "x"}), "the note is not a text"),
        (state_file(SEEN_LOG | {"checkpoint": LOG.note(4, NEW).decode()}), "is not signed by"),
        (state_file(SEEN_LOG | {"checkpoint": LOG.note(4).decode().replace("\n4\n", "\n5\n")}), "does not verify"),
        (state_file(SEEN_LOG, SEEN_LOG), "in the order of their origins, each once"),
        (state_file(SEEN_LOG) + b"\n", "is not in canonical form"),
        (bytes(auditor.MAX_BYTES + 1), "over 16777216"),
    ],
    ids=lambda value: ascii(value[:60]),
)
def test_what_is_no_state(data: bytes, why: str) -> None:
    with pytest.raises(AuditStateInvalid, match=why):
        AuditState.parse(data)


# The entries.


def test_all_entries_between_two_checkpoints_and_none_else() -> None:
    for old in range(10):
        for new in range(old + 1, 11):
            read = appended(LOG.head(old), LOG.head(new), LOG.consistency(old, new), LOG.entries[old:new])
            assert [entry.actor for entry in read] == [f"host {i}" for i in range(old, new)]
    assert appended(EMPTY_HEAD, EMPTY_HEAD, (), []) == ()


@pytest.mark.parametrize(
    "shown",
    [
        LOG.entries[4:9],
        LOG.entries[3:9],
        LOG.entries[4:] + LOG.entries[:1],
        [*LOG.entries[5:], LOG.entries[4]],
        [*entries(1, "somebody"), *LOG.entries[5:]],
    ],
    ids=["one less", "from another place", "one more", "in another order", "another"],
)
def test_other_entries_are_caught(shown: list[bytes]) -> None:
    with pytest.raises(ProofInvalid):
        appended(LOG.head(4), LOG.head(10), LOG.consistency(4), shown)


def test_a_log_of_other_things_is_caught() -> None:
    for entry, error in ((b"{}", LogEntryInvalid), (b"no entry", JsonInvalid)):
        with pytest.raises(error):
            appended(EMPTY_HEAD, Log([entry]).head(), (), [entry])


# Key rotation.

ROTATION = LogEntry.rotation(Role.LOG, OLD, NEW, NOON, "operator").render()
ROTATED = Log(LOG.entries).append(ROTATION)
PROOF = ROTATED.proof(10, OLD, NEW)


def test_a_rotation_that_the_log_shows_changes_the_key() -> None:
    state = rotate(SEEN, ROTATION, PROOF, ROTATED.consistency(4))
    new = VerifierKey(ORIGIN, NEW.public)
    assert state == AuditState((WatchedLog(new, ROTATED.note(11, OLD, NEW)),))
    assert AuditState.parse(state.render()) == state
    grown = Log(ROTATED.entries).append(*entries(1))
    assert advance(state, grown.note(12, NEW), grown.consistency(11)).log(ORIGIN).head == grown.head()
    with pytest.raises(NoteInvalid, match="is not signed by"):
        advance(state, grown.note(12, OLD), grown.consistency(11))


def test_whoever_saw_the_rotation_s_checkpoint_already_rotates_too() -> None:
    seen = advance(SEEN, ROTATED.note(), ROTATED.consistency(4))
    assert rotate(seen, ROTATION, PROOF).log(ORIGIN).key.public == NEW.public


def test_a_rotation_in_a_rewritten_log_changes_nothing() -> None:
    rewritten = Log(entries(10, "somebody")).append(ROTATION)
    with pytest.raises(LogRewritten):
        rotate(SEEN, ROTATION, rewritten.proof(10, OLD, NEW), rewritten.consistency(4))


def test_a_rotation_that_is_not_in_the_log_changes_nothing() -> None:
    without = Log(LOG.entries).append(*entries(1))
    with pytest.raises(ProofInvalid, match="does not lead from this entry"):
        rotate(SEEN, ROTATION, without.proof(10, OLD, NEW), without.consistency(4))


def test_at_a_rotation_both_keys_sign_the_checkpoint() -> None:
    for keys in ((OLD,), (NEW,)):
        with pytest.raises(NoteInvalid, match="is not signed by"):
            rotate(SEEN, ROTATION, ROTATED.proof(10, *keys), ROTATED.consistency(4))


@pytest.mark.parametrize(
    "entry",
    [
        LogEntry.rotation(Role.RECEIPT, RECEIPTS, NEW, NOON, "operator"),
        LogEntry.rotation(Role.RECEIPT, OLD, NEW, NOON, "operator"),
        LogEntry.rotation(Role.LOG, RECEIPTS, NEW, NOON, "operator"),
        LogEntry.parse(LOG.entries[0]),
    ],
    ids=["of the receipt key", "of the same key in another role", "of another log", "of nothing"],
)
def test_other_entries_change_no_key(entry: LogEntry) -> None:
    log = Log(LOG.entries).append(entry.render())
    with pytest.raises(ProofInvalid, match="this entry does not replace the key"):
        rotate(SEEN, entry.render(), log.proof(10, OLD, NEW), log.consistency(4))


# Receipts.


def receipt(log: Log, size: int) -> Receipt:
    digest = Digest.of(b"")
    return Receipt(digest, {}, digest, digest, NOON, "batch", "", Checkpoint(ORIGIN, log.head(size)))


@pytest.mark.parametrize("size", range(1, 11))
def test_a_receipt_names_the_log_that_the_auditor_sees(size: int) -> None:
    check_receipt(SEEN, receipt(LOG, size), LOG.consistency(min(size, 4), max(size, 4)))


def test_a_client_who_was_shown_another_log_is_noticed() -> None:
    other = Log(entries(10, "somebody"))
    with pytest.raises(LogForked):
        check_receipt(SEEN, receipt(other, 4))
    for size in (3, 7):
        with pytest.raises(LogRewritten) as caught:
            check_receipt(SEEN, receipt(other, size), LOG.consistency(min(size, 4), max(size, 4)))
        assert caught.value.data["shown"] == receipt(other, size).log.render()
    with pytest.raises(LogUnknown):
        check_receipt(SEEN, replace(receipt(LOG, 4), log=Checkpoint("another.example", LOG.head(4))))


def test_what_an_auditor_cannot_see_is_said() -> None:
    assert any("witnesses" in spot for spot in auditor.BLIND_SPOTS)
    assert all(spot.endswith(".") for spot in auditor.BLIND_SPOTS)


def test_a_second_log_shown_to_others_is_not_seen_by_one_auditor_but_by_two() -> None:
    """The first blind spot, and its remedy: the two auditors compare their states."""
    second = Log(entries(10, "somebody"))
    mine = advance(SEEN, LOG.note(), LOG.consistency(4))
    theirs = advance(advance(NOTHING, second.note(4)), second.note(), second.consistency(4))
    with pytest.raises(LogForked):
        advance(mine, theirs.log(ORIGIN).note)
