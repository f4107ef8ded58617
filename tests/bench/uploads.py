"""Uploads and offers over loopback, against a plain copy from a socket to a file that is fsynced."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.figure import Figure, interleave
from sandseal_sdk.client import Client
from sandseal_sdk.errors import HostUnreachable
from sandseal_sdk.hosts.call import Call
from sandseal_sdk.hosts.patience import Patience
from sandseal_sdk.hosts.transfer import OfferPush
from sandseal_signing.manifest import render_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.pack import pack_folder
from support.bundles import manifest, trust_text
from support.cutting_proxy import cutting_proxy
from support.hosts import RunningHost, running_host
from support.keys import ed25519_key

ROUNDS = 5
MIB = 1 << 20
FILES = 4
SIZE_MIB = int(os.environ.get("SANDSEAL_BENCH_MIB", "1024")) // 2

_SINK = Path(__file__).with_name("sink.py")
_KEYS = {name: ed25519_key(name) for name in ("alice", "bob")}


def uploads() -> Iterator[Figure]:
    """One stream, and an offer of four files, each to the answer; nothing is vetted, as a holder is still missing."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        root = Path(temporary)
        seal = _sealed(root)
        host = stack.enter_context(_host(root))
        port = stack.enter_context(_sink(root / "plain"))
        client = stack.enter_context(Client(host.url, host.token))
        streamed, offered, plain = interleave(
            ROUNDS,
            lambda: _pushed(client, lambda: client.push(seal)),
            lambda: _pushed(client, lambda: client.push_offer(seal)),
            lambda: _copied(seal, port),
        )
        for name, ours in (("one stream", streamed), (f"an offer of {FILES} files", offered)):
            detail = f"{SIZE_MIB / ours:,.0f} against {SIZE_MIB / plain:,.0f} MiB/s"
            yield Figure(f"upload {SIZE_MIB} MiB, {name} / plain copy", plain / ours, "ratio", 0.7, True, detail)


def resumed() -> Iterator[Figure]:
    """An offer that goes on after its connection broke with half of it sent, against one that nothing broke."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        root = Path(temporary)
        seal = _sealed(root)
        host = stack.enter_context(_host(root))
        client = stack.enter_context(Client(host.url, host.token))
        rest, whole = interleave(
            ROUNDS, lambda: _rest(host, client, seal), lambda: _pushed(client, lambda: client.push_offer(seal))
        )
        detail = f"{rest:.2f} s for the rest, {whole:.2f} s for all of it"
        yield Figure("offer resumed at half / whole offer", rest / whole, "ratio", 1.0, False, detail)


def _sealed(root: Path) -> Path:
    """A bundle of four files of no meaning, signed by one of two holders."""
    folder, seal = root / "bundle", root / "big.seal"
    folder.mkdir()
    (folder / MANIFEST).write_bytes(render_manifest(manifest()))
    (folder / "model.onnx").write_bytes(b"")
    for number in range(FILES):
        with (folder / f"{number}.bin").open("wb") as file:
            for _ in range(SIZE_MIB // FILES):
                file.write(os.urandom(MIB))
    with seal.open("wb") as out:
        pack_folder(folder, out, [_KEYS["alice"]])
    return seal


@contextmanager
def _host(root: Path) -> Iterator[RunningHost]:
    (root / "trust.toml").write_text(trust_text(_KEYS, {"threshold": 2}))
    with running_host(root / "trust.toml", root / "data", {"SANDSEAL_SCRUB_MIB_S": "0"}) as host:
        host.wait_ready()
        yield host


@contextmanager
def _sink(file: Path) -> Iterator[int]:
    """The plain side; its port."""
    with subprocess.Popen([sys.executable, str(_SINK), str(file)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def _pushed(client: Client, push) -> float:
    """Seconds until the bundle is on disk and waits for its second holder; it is then deleted again."""
    began = time.perf_counter()
    answer = push()
    took = time.perf_counter() - began
    assert answer["state"] == "pending"
    client._send(Call("DELETE", f"/v1/bundles/{answer['id']}"))
    return took


def _copied(seal: Path, port: int) -> float:
    """Seconds until the same bytes are in a file that is on disk."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as peer, seal.open("rb", buffering=0) as file:
        buffer = memoryview(bytearray(MIB))
        while count := file.readinto(buffer):
            peer.sendall(buffer[:count])
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b"."
    return time.perf_counter() - began


def _rest(host: RunningHost, client: Client, seal: Path) -> float:
    """Seconds that a second push takes after the first one broke off half-way."""
    with (
        cutting_proxy(host.port, [SIZE_MIB * MIB // 2]) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}", host.token) as bad,
    ):
        try:
            OfferPush(bad._send, seal, lambda _: None, patience=Patience(tries=1)).run()
        except HostUnreachable:
            return _pushed(client, lambda: client.push_offer(seal))
    raise RuntimeError("the connection did not break")
