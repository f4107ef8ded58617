"""The transparency log of a real host: pushes and loads are in it, kills lose nothing, rewriting is found out."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest

from sandseal_sdk.errors import HostRefused, HostUnreachable
from sandseal_sdk.hosts import audit
from sandseal_sdk.hosts.log_client import LogClient
from sandseal_signing.auditor import AuditState, check_receipt
from sandseal_signing.digest import Digest
from sandseal_signing.errors import LogForked, LogRewritten, LogShrunk, LogUnknown, NoteInvalid, ProofInvalid
from sandseal_signing.keys import PublicKey
from sandseal_signing.logentry import Kind
from sandseal_signing.logproof import LogProof
from sandseal_signing.note import VerifierKey
from sandseal_signing.receipt import verify_receipt
from sandseal_signing.tensor import DataType
from support.onnx_models import identity, mlp

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path):
    """The host's data folder."""
    return tmp_path / "data"


def key_of(data) -> VerifierKey:
    return VerifierKey.parse((data / "keys" / "log.pub").read_text().strip())


def look(host, state: AuditState) -> audit.Look:
    with host.client() as client:
        return audit.look(LogClient(client.get), state)


def kinds(seen: audit.Look) -> list[Kind]:
    return [entry.kind for entry in seen.entries]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess:
    """The command line."""
    command = [sys.executable, "-m", "sandseal_sdk", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)


def test_what_happens_is_logged_and_proven_at_once(start, publisher, data) -> None:
    with start() as host, host.client() as client:
        state = AuditState().watch(key_of(data))
        answer = client.push(publisher.seal(mlp()))
        assert "the proof verifies" in audit.check_acceptance(state, answer, Digest(answer["id"]))
        assert LogProof.parse(answer["log"]["proof"].encode()).index == answer["log"]["index"]
        with pytest.raises(HostRefused):
            client.push(publisher.seal(mlp((128, 32, 10)), "other.mlp"))
        client.unload("acme.mlp")
        seen = look(host, state)
    assert kinds(seen) == [Kind.POLICY, Kind.ACCEPT, Kind.LOAD, Kind.REJECT, Kind.UNLOAD]
    accept, reject = seen.entries[1], seen.entries[3]
    assert accept.subject.bundle == Digest(answer["id"])
    assert accept.detail.holders == ("alice",)
    assert reject.detail.code == "policy_refused"


def test_killed_in_the_middle_the_log_goes_on_and_misses_nothing_that_was_answered(start, publisher, data) -> None:
    state = None
    answered = set()
    for version in range(1, 5):
        with start() as host, host.client() as client:
            state = state or AuditState().watch(key_of(data))
            seen = look(host, state)
            state = seen.state
            answered -= {entry.subject.bundle for entry in seen.entries if entry.kind is Kind.ACCEPT}
            assert not answered
            with suppress(HostUnreachable):
                answered.add(Digest(client.push(publisher.seal(mlp((128, 16 * version, 10)), version=version))["id"]))
            host.process.send_signal(signal.SIGKILL)
            host.process.wait(120)
    with start() as host:
        host.wait_ready()
        assert answered <= {entry.subject.bundle for entry in look(host, state).entries if entry.kind is Kind.ACCEPT}


def test_a_database_put_back_from_a_copy_is_found_out(start, publisher, data) -> None:
    with start() as host, host.client() as client:
        client.push(publisher.seal(mlp()))
    copy = {path.name: path.read_bytes() for path in data.glob("catalog.sqlite*")}
    with start() as host, host.client() as client:
        client.push(publisher.seal(mlp((128, 32, 10)), version=2))
        state = look(host, AuditState().watch(key_of(data))).state
    for path in data.glob("catalog.sqlite*"):
        path.unlink()
    for name, content in copy.items():
        (data / name).write_bytes(content)
    with start() as host:
        host.wait_ready()
        with pytest.raises((LogShrunk, LogForked, LogRewritten)) as caught:
            look(host, state)
    assert caught.value.data["known"] != caught.value.data["shown"]


def test_a_rewritten_entry_is_found_out(start, publisher, data) -> None:
    with start() as host, host.client() as client:
        client.push(publisher.seal(mlp()))
    with closing(sqlite3.connect(data / "catalog.sqlite")) as connection, connection:
        rewritten = "CAST(replace(data, 'alice', 'mallo') AS BLOB)"
        connection.execute(f"UPDATE log_entries SET data = {rewritten} WHERE kind = 'accept'")
    with start() as host, pytest.raises(ProofInvalid, match="entries from 0 on are not those"):
        look(host, AuditState().watch(key_of(data)))


def test_an_auditor_on_the_command_line_follows_a_rotation_and_keeps_evidence(start, publisher, data, tmp_path) -> None:
    state = tmp_path / "audit.json"

    def verify(host, *options: str) -> subprocess.CompletedProcess:
        words = ("log", "verify", "--state", str(state), *options)
        return run(*words, SANDSEAL_URL=host.url, SANDSEAL_TOKEN=host.token)

    with start() as host, host.client() as client:
        client.push(publisher.seal(mlp()))
        unknown = verify(host)
        assert unknown.returncode == 1
        assert "log_unknown" in unknown.stderr
        first = verify(host, "--key", str(data / "keys" / "log.pub"))
        assert "3 entries, 3 new; consistent" in first.stdout
        assert "a second log" in first.stderr
        busy = run("log", "rotate", "log", "--data", str(data))
        assert busy.returncode == 1
        assert "store_failed" in busy.stderr
    old = key_of(data)
    rotated = run("log", "rotate", "log", "--data", str(data))
    assert rotated.stdout.strip() == key_of(data).render() != old.render()
    with start() as host:
        host.wait_ready()
        second = verify(host)
        assert "new key for log" in second.stdout
        assert "consistent" in second.stdout
        with pytest.raises((NoteInvalid, LogUnknown)):
            look(host, AuditState().watch(VerifierKey(old.name, publisher.key.public)))
    for name in ("log_entries", "log_nodes", "log_checkpoints"):
        with closing(sqlite3.connect(data / "catalog.sqlite")) as connection, connection:
            connection.execute(f"DELETE FROM {name}")
    with start() as host:
        host.wait_ready()
        forged = verify(host)
        assert forged.returncode == 1
        assert "log_" in forged.stderr
        assert [path.name for path in sorted(tmp_path.glob("audit-*.note"))] == [
            "audit-1-known.note",
            "audit-1-shown.note",
        ]


def test_a_receipt_verifies_offline_and_names_the_log(start, publisher, data, tmp_path) -> None:
    receipt, request = tmp_path / "answer.receipt", tmp_path / "request"
    request.write_bytes(b"%PDF-1.7")
    with start() as host, host.client() as client:
        pushed = client.push(publisher.seal(identity(DataType.UINT8), "acme.echo"))
        words = ("call", "acme.echo", str(request), "--receipt", str(receipt))
        called = run(*words, SANDSEAL_URL=host.url, SANDSEAL_TOKEN=host.token)
        assert called.returncode == 0, called.stderr
        seen = look(host, AuditState().watch(key_of(data)))
    response = tmp_path / "answer.receipt.response"
    bodies = ("--request", str(request), "--response", str(response))
    verify = ("receipt", "verify", str(receipt), "--key", str(data / "keys" / "receipt.pub"))
    verified = run(*verify, *bodies)
    assert verified.returncode == 0, verified.stderr
    assert f"bundle     {pushed['id']}" in verified.stdout
    assert "ok  the response's body was compared" in verified.stdout
    key = PublicKey.parse((data / "keys" / "receipt.pub").read_text())
    check_receipt(seen.state, verify_receipt(receipt.read_bytes(), key))
    response.write_bytes(response.read_bytes() + b" ")
    changed = run(*verify, *bodies)
    assert changed.returncode == 1
    assert "receipt_invalid" in changed.stderr


def test_a_push_verifies_its_proof_once_the_logs_key_is_known(start, publisher, data, tmp_path) -> None:
    seal = publisher.seal(mlp())
    with start() as host:
        here = {"SANDSEAL_URL": host.url, "SANDSEAL_TOKEN": host.token, "XDG_CONFIG_HOME": str(tmp_path / "config")}
        assert "not verified" in run("push", str(seal), **here).stderr
        assert run("log", "verify", "--key", key_of(data).render(), **here).returncode == 0
        again = run("push", str(seal), **here)
    assert again.returncode == 0
    assert "the proof verifies" in again.stderr
