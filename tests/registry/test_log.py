"""The transparency log in the catalog: what is in it, what it proves, what happens when somebody rewrites it."""

import io
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from sandseal_host.errors import StoreError
from sandseal_host.registry.keyring import Keyring
from sandseal_host.registry.log import MAX_PAGE, TransparencyLog
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.rotation import open_log, rotate
from sandseal_signing import auditor
from sandseal_signing.auditor import AuditState
from sandseal_signing.checkpoint import open_checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.errors import LogForked, LogIncomplete, LogRewritten, LogShrunk, NoteInvalid, ProofInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Detail, Kind, LogEntry, Role, Subject
from sandseal_signing.merkle import EMPTY_HEAD, MerkleTree, leaf_hash, verify_consistency
from sandseal_signing.note import VerifierKey
from support.bundles import seal
from support.catalogs import open_catalog


@pytest.fixture
def catalog(tmp_path):
    with open_catalog(tmp_path / "catalog.sqlite") as catalog:
        yield catalog


@pytest.fixture
def key():
    return PrivateKey.generate()


@pytest.fixture
def log(catalog, key):
    return TransparencyLog(catalog, key)


def revoked(number: int) -> Subject:
    return Subject(blob=Digest.of(str(number).encode()))


def fill(log: TransparencyLog, count: int) -> None:
    for number in range(count):
        log.record(Kind.REVOKE, "root", revoked(number))


def watched(log: TransparencyLog) -> AuditState:
    return AuditState().watch(log.verifier)


def change(tmp_path, statement: str, *values: object) -> None:
    """What an intruder in the database does."""
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection, connection:
        connection.execute(statement, values)


# --- what is in it ---


def test_a_new_log_is_empty_and_signed(log):
    assert open_checkpoint(log.checkpoint(), log.verifier).head == EMPTY_HEAD
    assert log.origin.startswith("sandseal/")


@pytest.mark.slow
def test_every_entry_is_proven_under_every_later_checkpoint_and_every_two_are_consistent(log):
    fill(log, 20)
    entries = log.entries(0, 20)
    assert [LogEntry.parse(entry).subject for entry in entries] == [revoked(number) for number in range(20)]
    heads = [MerkleTree(map(leaf_hash, entries[:size])).frontier.head for size in range(21)]
    for size in range(1, 21):
        for number in range(size):
            assert log.prove(number, size).verify(entries[number], log.verifier).head == heads[size]
        for old in range(size + 1):
            verify_consistency(heads[old], heads[size], log.consistency(old, size))


def test_an_auditor_follows_the_log(log):
    state = watched(log)
    for _ in range(3):
        fill(log, 5)
        old = state.log(log.origin).head
        new = open_checkpoint(log.checkpoint(), log.verifier).head
        proof = log.consistency(old.size, new.size)
        state = auditor.advance(state, log.checkpoint(), proof)
        assert len(auditor.appended(old, new, proof, log.entries(old.size, new.size))) == 5


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 4), (2, 2), (3, 4)])
def test_entries_that_are_not_there(log, start, end):
    fill(log, 3)
    with pytest.raises(ProofInvalid):
        log.entries(start, end)


@pytest.mark.parametrize(("number", "size"), [(-1, None), (3, None), (0, 4), (2, 2), (0, 0)])
def test_proofs_of_what_is_not_there(log, number, size):
    fill(log, 3)
    with pytest.raises(ProofInvalid):
        log.prove(number, size)


@pytest.mark.parametrize(("old", "new"), [(-1, 2), (2, 1), (0, 4)])
def test_sizes_that_the_log_never_had(log, old, new):
    fill(log, 3)
    with pytest.raises(ProofInvalid):
        log.consistency(old, new)


@pytest.mark.slow
def test_entries_come_in_pages(log, catalog):
    with catalog.database.writing() as session:
        for number in range(MAX_PAGE + 3):
            log.record(Kind.REVOKE, "root", revoked(number), session=session)
    first = log.entries(0, MAX_PAGE + 3)
    assert len(first) == MAX_PAGE
    assert len(log.entries(MAX_PAGE, MAX_PAGE + 3)) == 3


def test_texts_are_made_fit_whatever_is_in_them(log):
    secret = "Bearer abcdefghijklmnopqrstuvwxyz"
    log.record(Kind.REVOKE, "", revoked(0), Detail(reason=f"two\nlines, {secret} " + "x" * 600, device=""))
    entry = LogEntry.parse(*log.entries(0, 1))
    assert entry.actor == "nobody"
    assert entry.detail.reason.startswith("two\\nlines, [removed]")
    assert len(entry.detail.reason) == 500


# --- one transaction ---


def test_an_entry_goes_with_its_transaction(log, catalog):
    def broken() -> None:
        with catalog.database.writing() as session:
            log.record(Kind.REVOKE, "root", revoked(0), session=session)
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert log.state.head == EMPTY_HEAD
    fill(log, 1)
    assert log.state.head.size == 1


def test_several_threads_append_to_one_log(log):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: fill(log, 5), range(4)))
    entries = log.entries(0, 20)
    assert MerkleTree(map(leaf_hash, entries)).frontier.head == log.state.head


def test_an_upload_is_accepted_and_logged_at_once_or_refused_and_logged(data, alice, bob, key):
    log = TransparencyLog(data.catalog, key)
    registry = Registry(data.store, data.catalog, lambda: data.policy, log)
    accepted = registry.accept(io.BytesIO(seal([alice])), lambda _: None, "ci")
    with pytest.raises(Exception, match="key"):
        registry.accept(io.BytesIO(seal([bob], version=2)), lambda _: None, "ci")
    kinds = [LogEntry.parse(entry) for entry in log.entries(0, 2)]
    assert [(entry.kind, entry.actor) for entry in kinds] == [(Kind.ACCEPT, "ci"), (Kind.REJECT, "ci")]
    assert kinds[0].detail.keys == (Digest(alice.public.fingerprint),)
    assert kinds[1].detail.code == "signer_unknown"
    logged = log.acceptance(accepted.id)
    assert logged.proof.verify(logged.entry, log.verifier).head == log.state.head
    assert log.acceptance(Digest.of(b"another")) is None


def test_where_the_log_cannot_be_written_nothing_is_accepted(data, alice, key, tmp_path):
    log = TransparencyLog(data.catalog, key)
    registry = Registry(data.store, data.catalog, lambda: data.policy, log)
    fill(log, 1)
    change(tmp_path, "DELETE FROM log_nodes")
    with pytest.raises(LogIncomplete):
        registry.accept(io.BytesIO(seal([alice])), lambda _: None)
    assert registry.list() == ()


# --- keys ---


def test_another_key_cannot_continue_the_log(catalog, log):
    fill(log, 1)
    with pytest.raises(StoreError, match="not the one that signed") as refused:
        TransparencyLog(catalog, PrivateKey.generate())
    assert "copy" in refused.value.hint


def test_keys_are_made_once_for_the_hosts_user_only(tmp_path):
    keys = {role: Keyring(tmp_path / "keys").key(role).public for role in Role}
    assert keys == {role: Keyring(tmp_path / "keys").key(role).public for role in Role}
    assert len(set(keys.values())) == 2
    assert [oct(path.stat().st_mode)[-3:] for path in sorted((tmp_path / "keys").iterdir())] == ["600", "600"]
    (tmp_path / "keys" / "log.key").chmod(0o640)
    with pytest.raises(StoreError, match="others may read"):
        Keyring(tmp_path / "keys").key(Role.LOG)


def test_a_rotation_is_signed_by_both_keys_and_an_auditor_follows_it(catalog, tmp_path):
    keyring = Keyring(tmp_path / "keys")
    log = open_log(catalog, keyring)
    old = log.verifier
    state = auditor.advance(watched(log), log.checkpoint())
    fill(log, 2)
    rotate(log, keyring, Role.LOG, "ops")
    fill(log, 1)
    with pytest.raises(NoteInvalid):
        auditor.advance(state, log.checkpoint(), log.consistency(0, 4))
    (entry,) = log.entries(2, 3)
    state = auditor.rotate(state, entry, log.prove(2, 3).render(), log.consistency(0, 3))
    state = auditor.advance(state, log.checkpoint(), log.consistency(3, 4))
    assert state.log(log.origin).key == log.verifier != old
    assert VerifierKey.parse((tmp_path / "keys" / "log.pub").read_text().strip()) == log.verifier
    assert open_log(catalog, Keyring(tmp_path / "keys")).verifier == log.verifier


def test_the_receipt_key_rotates_too_and_the_log_names_it(catalog, tmp_path):
    keyring = Keyring(tmp_path / "keys")
    log = open_log(catalog, keyring)
    new = rotate(log, keyring, Role.RECEIPT, "ops")
    assert keyring.key(Role.RECEIPT).public == log.in_force(Role.RECEIPT) == new
    assert log.in_force(Role.LOG) is None
    (tmp_path / "keys" / "receipt.key").unlink()
    with pytest.raises(StoreError, match="not the one that its log names"):
        open_log(catalog, Keyring(tmp_path / "keys"))


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("role", Role)
def test_a_rotation_that_was_broken_off_ends_as_the_log_says(catalog, tmp_path, role, logged):
    keyring = Keyring(tmp_path / "keys")
    log = open_log(catalog, keyring)
    old, new = keyring.key(role), keyring.successor(role)
    if logged:
        log.rotate(role, old, new, "ops")
    open_log(catalog, Keyring(tmp_path / "keys"))
    assert keyring.key(role).public == (new if logged else old).public
    assert not (tmp_path / "keys" / f"{role}.key.next").exists()


# --- somebody in the database ---


def test_a_rewritten_entry_is_found_out(log, tmp_path):
    fill(log, 5)
    state = auditor.advance(watched(log), log.checkpoint())
    (entry,) = log.entries(2, 3)
    change(tmp_path, "UPDATE log_entries SET data = ? WHERE number = 2", entry.replace(b'"root"', b'"toor"'))
    with pytest.raises(ProofInvalid):
        auditor.appended(EMPTY_HEAD, state.log(log.origin).head, (), log.entries(0, 5))
    with pytest.raises(ProofInvalid):
        log.prove(2).verify(log.entries(2, 3)[0], log.verifier)


def test_a_log_cut_off_and_continued_is_found_out(log, tmp_path):
    fill(log, 5)
    state = auditor.advance(watched(log), log.checkpoint())
    for statement in (
        "DELETE FROM log_entries WHERE number >= 3",
        "DELETE FROM log_nodes WHERE (position + 1) << level > 3",
        "DELETE FROM log_checkpoints WHERE size > 3",
    ):
        change(tmp_path, statement)
    with pytest.raises(LogShrunk):
        auditor.advance(state, log.checkpoint())
    for number in (10, 11):
        log.record(Kind.REVOKE, "root", revoked(number))
    with pytest.raises(LogForked) as forked:
        auditor.advance(state, log.checkpoint())
    assert forked.value.data["shown"] != forked.value.data["known"]
    log.record(Kind.REVOKE, "root", revoked(12))
    with pytest.raises(LogRewritten):
        auditor.advance(state, log.checkpoint(), log.consistency(5, 6))


def test_an_entry_that_was_taken_out_is_missed(log, tmp_path):
    fill(log, 3)
    change(tmp_path, "DELETE FROM log_entries WHERE number = 1")
    with pytest.raises(LogIncomplete):
        log.entries(0, 3)
