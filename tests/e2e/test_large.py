"""A bundle of 5 GB, from packing to an answer, over a connection that breaks; nobody's memory grows with it."""

import os
import resource
import threading
from pathlib import Path

import numpy as np
import pytest

from sandseal_sdk.client import Client
from sandseal_signing.bundle import Discard, open_bundle
from sandseal_signing.seal import SealReader
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Moment
from support.cutting_proxy import cutting_proxy
from support.leases import needs_leases
from support.onnx_models import outside

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "SANDSEAL_TEST_LARGE" not in os.environ, reason="takes minutes and 16 GB: SANDSEAL_TEST_LARGE=1"
    ),
]

SIZE, MIB = 5_000_000_000, 1 << 20
MOST = 512 * MIB  # of anyone's own memory; an ONNX Runtime that serves a small model has some 100 MiB


class Memory:
    """The most memory of its own that a process has had, looked at again and again."""

    def __init__(self, process: int) -> None:
        self._status = Path(f"/proc/{process}/status")
        self.most = 0
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look)
        self._looking.start()

    def stop(self) -> int:
        self._over.set()
        self._looking.join()
        return self.most

    def _look(self) -> None:
        while not self._over.wait(0.05):
            (line,) = (line for line in self._status.read_text().splitlines() if line.startswith("RssAnon"))
            self.most = max(self.most, int(line.split()[1]) << 10)


def most_held() -> int:
    """The most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@needs_leases
def test_five_gigabytes(start, publisher) -> None:
    publisher.trust.write_text(publisher.trust.read_text() + "max_limits = {total_mib = 8192}\n")
    model = outside()
    (weights,) = model.external.values()
    with (publisher.folder / "model.onnx.data").open("wb") as file:
        file.write(weights)
        file.truncate(SIZE)
    seal = publisher.seal(model, "acme.large")
    assert seal.stat().st_size > SIZE
    before = most_held()
    policy = TrustPolicy.parse(publisher.trust.read_text(), str)
    with seal.open("rb", buffering=0) as file:
        open_bundle(SealReader(file), policy, lambda _: Moment.current(), Discard())
    with (
        start() as host,
        cutting_proxy(host.port, [SIZE // 2]) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}", host.token, timeout=600) as client,
    ):
        memory = Memory(host.process.pid)
        answer = client.push_offer(seal)
        assert proxy.broken == 1
        assert proxy.sent < SIZE + 64 * MIB
        assert (answer["state"], answer["weights"]) == ("ready", "path")
        assert client.infer("acme.large", {"x": np.ones((1, 4), np.float32)})["y"].tolist() == [[2.0] * 4]
        client.unload("acme.large")
        client.load("acme.large")
        assert memory.stop() < MOST
    assert most_held() - before < MOST
