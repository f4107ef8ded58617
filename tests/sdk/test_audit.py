"""The auditor at work on a real log: growth, rotations, lies, and what stays on disk."""

from collections.abc import Iterator

import pytest

from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.log import TransparencyLog
from sandseal_sdk.hosts import audit
from sandseal_signing.auditor import AuditState
from sandseal_signing.digest import Digest
from sandseal_signing.errors import (
    AuditStateInvalid,
    LogForked,
    LogShrunk,
    LogUnknown,
    NoteInvalid,
    ProofInvalid,
)
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Kind, Role, Subject
from sandseal_signing.note import VerifierKey
from support.catalogs import open_catalog


class Source:
    """A log as a host shows it; `entries` may be told to lie."""

    def __init__(self, log: TransparencyLog) -> None:
        self.log = log
        self.lie = bytes

    def checkpoint(self) -> bytes:
        return self.log.checkpoint()

    def entries(self, start: int, end: int) -> Iterator[bytes]:
        return (self.lie(entry) for entry in self.log.entries(start, end))

    def proof(self, number: int, size: int) -> bytes:
        return self.log.prove(number, size).render()

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        return self.log.consistency(old, new)


@pytest.fixture
def key():
    return PrivateKey.generate()


@pytest.fixture
def catalog(tmp_path):
    with open_catalog(tmp_path / "catalog.db") as catalog:
        yield catalog


@pytest.fixture
def log(catalog, key):
    return TransparencyLog(catalog, key)


@pytest.fixture
def state(log):
    return AuditState().watch(log.verifier)


def fill(log: TransparencyLog, *numbers: int) -> None:
    for number in numbers:
        log.record(Kind.REVOKE, "root", Subject(blob=Digest.of(b"%d" % number)))


def test_each_look_finds_what_was_appended_since_the_last(log, state):
    fill(log, 1, 2, 3)
    first = audit.look(Source(log), state)
    assert (first.before.size, first.after.size, len(first.entries)) == (0, 3, 3)
    again = audit.look(Source(log), first.state)
    assert (again.state, again.entries) == (first.state, ())
    fill(log, 4)
    assert [e.subject.blob for e in audit.look(Source(log), first.state).entries] == [Digest.of(b"4")]


def test_a_log_that_nobody_watches(log):
    with pytest.raises(LogUnknown):
        audit.look(Source(log), AuditState())


@pytest.mark.parametrize("seen", range(6))
def test_two_rotations_are_followed_from_wherever_the_auditor_was(log, key, state, seen):
    keys = [key, PrivateKey.generate(), PrivateKey.generate()]
    source = Source(log)
    steps = [
        lambda: fill(log, 1),
        lambda: log.rotate(Role.LOG, keys[0], keys[1], "ops"),
        lambda: fill(log, 2),
        lambda: log.rotate(Role.LOG, keys[1], keys[2], "ops"),
        lambda: fill(log, 3),
    ]
    for step in steps[:seen]:
        step()
    before = audit.look(source, state)
    for step in steps[seen:]:
        step()
    after = audit.look(source, before.state)
    assert after.state.log(log.origin).key == log.verifier
    assert len(before.entries) + len(after.entries) == 5
    assert [e.kind for e in (*before.entries, *after.entries)].count(Kind.KEY_ROTATION) == 2


def test_another_key_that_no_entry_brings(log):
    fill(log, 1)
    stranger = VerifierKey(log.origin, PrivateKey.generate().public)
    with pytest.raises(NoteInvalid, match="no entry of the log replaces this key"):
        audit.look(Source(log), AuditState().watch(stranger))


def test_entries_other_than_those_in_the_tree(log, state):
    fill(log, 1, 2)
    source = Source(log)
    source.lie = lambda entry: entry.replace(b'"root"', b'"toor"')
    with pytest.raises(ProofInvalid):
        audit.look(source, state)


def test_a_log_that_shrank_or_forked_leaves_evidence(tmp_path, key, log, state):
    fill(log, 1, 2)
    state = audit.look(Source(log), state).state
    with Catalog(f"sqlite:///{tmp_path}/other.db") as catalog:
        other = TransparencyLog(catalog, key)
        other.origin = log.origin  # the same host's, after its database was lost
        for wanted, number in ((LogShrunk, 1), (LogForked, 3)):
            fill(other, number)
            with pytest.raises(wanted) as caught:
                audit.look(Source(other), state)
            known, shown = audit.keep_evidence(tmp_path / "audit.json", caught.value)
            assert known.read_bytes() == log.checkpoint()
            assert shown.read_bytes() == other.checkpoint()
    assert len(list(tmp_path.glob("audit-*.note"))) == 4


def test_the_proof_in_an_uploads_answer(log, state):
    bundle = Digest.of(b"bundle")
    for number in (1, 2):
        log.record(Kind.ACCEPT, "ci", Subject(bundle, "acme.tiny", number))
    logged = log.acceptance(bundle)
    told = {"index": logged.proof.index, "entry": logged.entry.decode(), "proof": logged.proof.render().decode()}
    answer = {"log": told}
    assert "entry 0" in audit.check_acceptance(state, answer, bundle)
    assert "verifies" in audit.check_acceptance(state, answer, bundle)
    assert "not verified" in audit.check_acceptance(AuditState(), answer, bundle)
    assert "did not say" in audit.check_acceptance(state, {}, bundle)
    with pytest.raises(ProofInvalid, match="not the acceptance"):
        audit.check_acceptance(state, answer, Digest.of(b"another"))
    with pytest.raises(ProofInvalid):
        audit.check_acceptance(state, {"log": {**told, "entry": log.entries(1, 2)[0].decode()}}, bundle)


def test_the_state_is_kept_in_one_file(tmp_path, log, state):
    path = tmp_path / "new" / "audit.json"
    assert audit.read_state(path) == AuditState()
    audit.write_state(path, state)
    assert audit.read_state(path) == state
    assert [file.name for file in path.parent.iterdir()] == ["audit.json"]
    path.write_bytes(b"{}")
    with pytest.raises(AuditStateInvalid):
        audit.read_state(path)
