"""A large bundle over a bad connection: it arrives, once, whatever breaks on the way."""

import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from sandseal_sdk import publish
from sandseal_sdk.client import Client
from sandseal_sdk.errors import HostRefused, HostUnreachable
from sandseal_sdk.hosts.patience import Patience
from sandseal_sdk.hosts.transfer import OfferPush
from sandseal_signing.pack import pack_folder
from support.cutting_proxy import cutting_proxy
from support.onnx_models import mlp

pytestmark = pytest.mark.slow

ROW = np.ones((1, 128), np.float32)
MIB = 1 << 20
QUICK = Patience(first_s=0.05)


def large_seal(publisher, sizes: dict[str, int], version: int = 1) -> Path:
    """A bundle of a small model and sparse files of these sizes in bytes."""
    onnx = publisher.folder / "large.onnx"
    onnx.write_bytes(mlp().data)
    folder = publish.write_bundle(onnx, publisher.folder / f"large-{version}", name="acme.large", version=version)
    for name, size in sizes.items():
        with (folder / name).open("wb") as file:
            file.truncate(size)
            file.write(name.encode())  # no two alike
    seal = publisher.folder / f"large-{version}.seal"
    with seal.open("wb") as file:
        pack_folder(folder, file, [publisher.key])
    return seal


def push(client: Client, seal: Path, progress=lambda _: None, patience: Patience = QUICK, **options):
    return OfferPush(client._send, seal, progress, patience=patience, **options).run()


def test_300_mib_arrive_over_a_connection_that_breaks(start, publisher) -> None:
    sizes = {"one.bin": 200 * MIB, "two.bin": 60 * MIB, "three.bin": 40 * MIB}
    seal = large_seal(publisher, sizes)
    with (
        start() as host,
        cutting_proxy(host.port, [1000, 90 * MIB, 91 * MIB, 250 * MIB]) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}", host.token) as client,
    ):
        guard, told = threading.Lock(), []

        def progress(count: int) -> None:
            with guard:
                told.append(count)

        answer = push(client, seal, progress)
        assert proxy.broken == 4
        assert proxy.sent < 360 * MIB  # what had arrived was not sent again, but for what was on its way
        assert sum(told) == seal.stat().st_size - _framing(seal)
        assert (answer["name"], answer["state"]) == ("acme.large", "ready")
        assert client.infer("acme.large", {"x": ROW})["y"].shape == (1, 10)
        before = proxy.sent
        newer = large_seal(publisher, sizes, version=2)
        assert push(client, newer)["version"] == 2
        assert proxy.sent - before < MIB  # nothing but its head was new


def test_a_push_goes_on_after_the_host_and_the_client_were_killed(start, publisher, tmp_path) -> None:
    seal = large_seal(publisher, {"one.bin": 60 * MIB})
    with start() as host, cutting_proxy(host.port, [30 * MIB]) as proxy:
        with Client(f"http://127.0.0.1:{proxy.port}", host.token) as client, pytest.raises(HostUnreachable):
            push(client, seal, patience=Patience(tries=1))
        host.process.send_signal(signal.SIGKILL)
        host.process.wait(120)
    with start() as host, cutting_proxy(host.port, []) as proxy:
        with Client(f"http://127.0.0.1:{proxy.port}", host.token) as client:
            assert client.push_offer(seal)["name"] == "acme.large"
        assert proxy.sent < 50 * MIB
    assert not list(Path(tmp_path, "data", "blobs", "offers").iterdir())


def test_what_is_refused_is_refused_before_a_blob_is_sent(start, publisher) -> None:
    seal = large_seal(publisher, {"one.bin": 60 * MIB})
    publisher.trust.write_text(publisher.trust.read_text().replace('"acme.*"', '"other.*"'))
    with start() as host, cutting_proxy(host.port, []) as proxy:
        with Client(f"http://127.0.0.1:{proxy.port}", host.token) as client, pytest.raises(HostRefused) as refused:
            client.push_offer(seal)
        assert refused.value.code == "policy_refused"
        assert proxy.sent < MIB


def _framing(seal: Path) -> int:
    """Bytes of the archive that are no blob's: head, headers, padding, end."""
    from sandseal_sdk.hosts.seal_index import SealIndex

    return seal.stat().st_size - SealIndex.read(seal).size
