"""The figures of *The GPU core* that a client sees: latencies over HTTP up to saturation, and beside other servers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench import servers
from bench.figure import Figure, Measure
from bench.latency import Latencies, at_rate, closed
from bench.load import Target
from support.onnx_models import OnnxModel, mlp, wide_mlp

SECONDS = 3.0
_MODELS: dict[str, Callable[[], OnnxModel]] = {"tiny MLP": mlp, "94 MB MLP": wide_mlp}


def curves() -> Iterator[Figure]:
    """Latencies to callers that wait, and at constant rates up to beyond the most that they were answered."""
    for name, make in _MODELS.items():
        model = make()
        with TemporaryDirectory() as folder:
            file = Path(folder, "model.onnx")
            file.write_bytes(model.data)
            with servers.host(Path(folder, "host"), file, "model") as host:
                row = np.ones((1, *model.spec.inputs[0].shape[1:]), np.float32)
                body, headers = servers.binary(row, "x")
                yield from _curves(name, servers.target(host, "/v2/models/model/infer", body, headers))


def _curves(name: str, target: Target) -> Iterator[Figure]:
    core, capacity = servers.cores()[1], 0.0
    alone = closed(target, 1, SECONDS, core).p50
    for connections in (1, 8, 32, 128):
        found = closed(target, connections, SECONDS, core)
        capacity = max(capacity, found.rate)
        turn = connections / found.rate * 1e3  # what each waits for at least, where all are served alike
        yield _figure(f"p99 to {connections} who wait, {name}", found, 20 * alone + 2 * turn, alone)
    for share in (0.25, 0.5, 0.75, 0.9, 1.1):
        found = at_rate(target, share * capacity, SECONDS, core)
        behind = max(0.0, share - 1) * SECONDS * 1e3  # where more comes than is answered, the last wait for that
        most = 20 * alone + 2 * behind
        yield _figure(f"p99 at {share:.0%} of {capacity:,.0f} a second, {name}", found, most, alone)


def _figure(name: str, found: Latencies, most: float, alone: float) -> Figure:
    detail = f"p50 {found.p50:.2f} ms, alone {alone:.2f}; {found.rate:,.0f} answers/s, {found.refused} refused"
    detail += f", {found.lost} LOST" if found.lost else ""
    if found.late > alone:  # others use this machine too: the load is to blame, not the host
        detail += f"; sent up to {found.late:.1f} ms late"
    return Figure(name, found.p99, "ms", most, False, detail)


MEASURES = (Measure("latency over HTTP", curves),)
