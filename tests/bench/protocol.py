"""The figures of *Protocol and guard*: what the edge costs, and what it withstands.

`SANDSEAL_FUZZ_SECONDS` (600) and `SANDSEAL_SOAK_SECONDS` (3600) are how long the long ones run.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench import load, peers, protocol_bodies, servers
from bench.figure import Figure, Measure, interleave
from bench.latency import at_rate, closed
from bench.load import Target
from sandseal_sdk.client import Client
from sandseal_signing.tensor import DataType
from support.crowd import idle_connections
from support.hosts import RunningHost
from support.http_fuzz import fuzz
from support.onnx_models import OnnxModel, identity, mlp
from support.usage import processor_s, resident

ROUNDS, SECONDS = 5, 3.0
FUZZ_S = float(os.environ.get("SANDSEAL_FUZZ_SECONDS", "600"))
SOAK_S = float(os.environ.get("SANDSEAL_SOAK_SECONDS", "3600"))
_MLP = mlp()
_IDLE, _BUSY = 2000, 200
_PARTS = 5  # that memory is looked at in
_SLICE_S = 20.0  # of a soak: the load remembers each of its answers
_PATH = "/v2/models/acme.same/infer"
_TRITON = {"json": {1: 5.0, 32: 1.3}, "binary": {1: 5.0, 32: 1.0}}  # how many times as many answers, by connections


@contextmanager
def _host(model: OnnxModel = _MLP, **settings: str) -> Iterator[RunningHost]:
    """A host with this model, called as the fuzzer calls its own."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        file.write_bytes(model.data)
        with servers.host(Path(folder, "host"), file, "acme.same", settings) as host:
            yield host


def _target(host: RunningHost) -> Target:
    body, headers = servers.binary(np.ones((1, 128), np.float32), "x")
    return servers.target(host, _PATH, body, headers)


def _rate(target: Target) -> Callable[[], float]:
    return lambda: load.measure(target, 32, SECONDS, servers.cores()[1])


def guard() -> Iterator[Figure]:
    """Processor that an answer costs when nobody in particular asks, over that when a token with a rate does."""
    with _host(SANDSEAL_ANONYMOUS="true") as host, host.client() as client:

        def cost(target: Target) -> Callable[[], float]:
            def run() -> float:
                answers, spent = _answered(client), processor_s(host)
                _rate(target)()
                return (processor_s(host) - spent) / (_answered(client) - answers) * 1e6

            return run

        issued = client.issue_token("bench", ["infer"], requests_s=1e9, rows_s=1e9)
        head = f"Authorization: Bearer {host.token}\r\n".encode()
        nobody = Target(host.port, _target(host).request.replace(head, b""))
        known, unknown = interleave(ROUNDS, cost(_target(replace(host, token=issued["secret"]))), cost(nobody))
    detail = f"{unknown:.1f} against {known:.1f} us of processor an answer"
    yield Figure("anonymous / token and rates", unknown / known, "ratio", 0.95, True, detail)


def _answered(client: Client) -> int:
    statistics = json.loads(client.get("/v2/models/acme.same/stats"))
    return int(statistics["model_stats"][0]["inference_count"])


def faces() -> Iterator[Figure]:
    """What the protocol face gains over ASGI."""
    with _host() as direct, _host(SANDSEAL_DIRECT="false") as asgi:
        ours, theirs = interleave(ROUNDS, _rate(_target(direct)), _rate(_target(asgi)))
    yield Figure(
        "protocol face / ASGI", ours / theirs, "ratio", 1.0, True, f"{ours:,.0f} against {theirs:,.0f} answers/s"
    )


def crowd() -> Iterator[Figure]:
    """Memory that the host gains while 2,000 connections rest and 200 are busy."""
    with _host() as host:
        target, core = _target(host), servers.cores()[1]
        load.measure(target, _BUSY, SECONDS, core)
        with idle_connections(host, _IDLE):
            rates, sizes = [], []
            for _ in range(_PARTS + 1):
                rates.append(load.measure(target, _BUSY, 2 * SECONDS, core))
                sizes.append(resident(host))
    detail = f"{sizes[0] >> 20} MiB; {max(rates):,.0f} answers/s to the busy ones"
    yield Figure(f"growth with {_IDLE} idle and {_BUSY} busy", _growth(sizes), "%", 1.0, False, detail)


def _growth(sizes: Sequence[int]) -> float:
    """Percent that a process grew by, judged by the quietest part: what leaks grows in each."""
    quietest = min(after - before for before, after in pairwise(sizes))
    return 100 * quietest * (len(sizes) - 1) / max(1, sizes[0])


def fuzzed() -> Iterator[Figure]:
    """Requests that nobody's client would send: the first that is the host's own fault, or hangs it, ends this."""
    for face in ("true", "false"):
        with _host(identity(DataType.FP32, ("batch", 16)), SANDSEAL_DIRECT=face, SANDSEAL_SLOW_S="5") as host:
            fuzz(host, FUZZ_S / 20)
            before = resident(host)
            seen = fuzz(host, FUZZ_S / 2)
            grown = resident(host) - before
        name = "protocol face" if face == "true" else "ASGI"
        detail = f"{seen.total():,} answers, of which {seen[500]} were 500"
        yield Figure(f"growth under the fuzzer, {name}", grown / 2**20, "MiB", 32.0, False, detail)


def soak() -> Iterator[Figure]:
    """Errors and growth at 80 % of the capacity."""
    core, slice_s = servers.cores()[1], min(_SLICE_S, SOAK_S / _PARTS)
    with _host() as host:
        target = _target(host)
        rate = 0.8 * closed(target, 32, SECONDS, core).rate
        at_rate(target, rate, slice_s, core)
        sizes, bad, good = [resident(host)], 0, 0.0
        for _ in range(round(SOAK_S / slice_s)):
            found = at_rate(target, rate, slice_s, core)
            bad, good = bad + found.refused + found.lost, good + found.rate * slice_s
            sizes.append(resident(host))
    yield Figure("errors of a soak at 80 %", bad, "", 0.0, False, f"{good:,.0f} answers at {rate:,.0f} a second")
    parts = sizes[:: (len(sizes) - 1) // _PARTS]
    yield Figure("growth of a soak at 80 %", _growth(parts), "%", 1.0, False, f"{sizes[0] >> 20} MiB before")


def triton() -> Iterator[Figure]:
    """Answers a second over those of Triton's C++ front end with its ONNX Runtime backend, on the tiny MLP."""
    script = Path(os.environ.get("SANDSEAL_PEERS", ""), "run.py")
    if not script.is_file() or not os.environ.get("TRITON_ORT_BACKEND"):
        why = "TRITON_ORT_BACKEND names no backend; `make bench SUITE=core` compares with Triton's Python backend"
        yield Figure.not_measured("beside Triton's C++ backend", why)
        return
    for body, goals in _TRITON.items():
        rows = peers.bench(script, "mlp", body, "triton-ort")
        for connections, goal in goals.items():
            ours, theirs = (rows[name, connections]["req_per_s"] for name in (peers.OURS, "triton-ort"))
            detail = f"{ours:,.0f} against {theirs:,.0f} answers/s"
            yield Figure(f"beside Triton C++, {body} c={connections}", ours / theirs, "ratio", goal, True, detail)


MEASURES = (
    Measure("guard", guard),
    Measure("faces", faces),
    Measure("crowd", crowd),
    *protocol_bodies.MEASURES,
    Measure("triton", triton),
    Measure("fuzz", fuzzed),
    Measure("soak", soak),
)
