"""How long after a revocation was asked for the last answer of a model under load comes."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np

from bench import servers
from bench.figure import Figure
from sandseal_sdk import publish
from sandseal_sdk.errors import HostRefused
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from support.hosts import RunningHost
from support.onnx_models import mlp

ROUNDS, CALLERS = 5, 8
_ROW = np.ones((1, 128), np.float32)


class _Callers:
    """Clients that ask one after the other until they are refused for good."""

    def __init__(self, host: RunningHost) -> None:
        self._host = host
        self.answered = [0.0] * CALLERS
        self.codes: set[str] = set()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        with self._host.client() as client:
            try:
                while True:
                    client.infer("bench.mlp", {"x": _ROW})
                    self.answered[number] = time.perf_counter()
            except HostRefused as refused:
                self.codes.add(refused.code)

    def last_answer(self) -> float:
        """When the last answer came, once all were refused."""
        for thread in self._threads:
            thread.join(30)
        if self.codes != {"revoked"}:
            raise RuntimeError(f"the callers were refused with {self.codes or 'nothing'}")
        return max(self.answered)


def revocation() -> Iterator[Figure]:
    """From the request that revokes a bundle to the last answer that any of the callers got of it."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        root = Path(temporary)
        (root / "mlp.onnx").write_bytes(mlp().data)
        host = stack.enter_context(servers.host(root / "made", root / "mlp.onnx", "bench.mlp"))
        client = stack.enter_context(host.client())
        took = [_round(root, host, client, version) for version in range(2, 2 + ROUNDS)]
        detail = f"{CALLERS} callers; the longest of {ROUNDS} rounds {max(took):.1f} ms"
        yield Figure("revocation to last answer", median(took), "ms", 1000.0, False, detail)


def _round(root: Path, host: RunningHost, client, version: int) -> float:
    """Milliseconds, for a bundle of this version."""
    bundle = publish.write_bundle(root / "mlp.onnx", root / str(version), name="bench.mlp", version=version)
    seal = root / f"{version}.seal"
    with seal.open("wb") as file:
        pack_folder(bundle, file, [PrivateKey.parse((root / "made" / "publisher.key").read_bytes())])
    pushed = client.push(seal)
    callers = _Callers(host)
    time.sleep(0.5)
    asked = time.perf_counter()
    client.revoke("bundle", pushed["id"])
    return max(0.0, callers.last_answer() - asked) * 1e3
