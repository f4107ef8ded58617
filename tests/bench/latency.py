"""Latencies of an HTTP server: to callers that wait for their answers, or at a constant rate that waits for nobody.

Runs as a process of its own (`python latency.py`), as `load.py` does. At a constant rate a latency counts from when its
request was due, whenever a connection was free to send it: a server that stands still shows in every request that came
meanwhile (no coordinated omission).
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.load import Target, complete

_LINGER_S = 10.0  # for answers that are still out when the load ends
_MOST = 256  # connections of a constant rate: what waits beyond waits here


@dataclass(frozen=True)
class Latencies:
    """What became of the requests.

    Args:
        rate: answers of status 200 a second, while requests came.
        p50, p99: their milliseconds.
        refused: answers of another status.
        lost: requests without an answer.
        late: p99 of the milliseconds by which this program itself was late, as on a machine that others use too.
    """

    rate: float
    p50: float
    p99: float
    refused: int
    lost: int
    late: float


def closed(target: Target, connections: int, seconds: float, core: int | None) -> Latencies:
    """From `connections` callers, each of which sends the next request when it has its answer."""
    return _measured(target, {"connections": connections}, seconds, core)


def at_rate(target: Target, rate: float, seconds: float, core: int | None) -> Latencies:
    """At `rate` requests a second."""
    return _measured(target, {"rate": rate}, seconds, core)


def _measured(target: Target, kind: dict[str, float], seconds: float, core: int | None) -> Latencies:
    job = {"port": target.port, "request": target.request.hex(), "seconds": seconds, **kind}
    pin = [] if core is None else ["taskset", "-c", str(core)]
    done = subprocess.run(
        [*pin, sys.executable, str(Path(__file__))],
        input=json.dumps(job), capture_output=True, text=True, timeout=seconds + 60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the load generator failed: {done.stderr.strip()[-500:]}")
    return Latencies(**json.loads(done.stdout))


class _Load:
    """Requests that are due, connections that are free, and what came back."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.free: list[_Connection] = []
        self.due: deque[float] = deque()
        self.took: list[float] = []
        self.late: list[float] = []
        self.sent = self.refused = 0
        self.over = False  # nothing more will be due
        self.all_in = asyncio.Event()

    @property
    def out(self) -> int:
        """How many have no answer yet."""
        return self.sent - len(self.took) - self.refused

    def ask(self, due: float) -> None:
        """Send a request now, or as soon as a connection is free."""
        self.sent += 1
        if self.free:
            self.free.pop().send(due)
        else:
            self.due.append(due)

    def answered(self, connection: "_Connection", good: bool) -> None:
        """Count an answer, and go on."""
        if good:
            self.took.append(time.perf_counter() - connection.due)
        else:
            self.refused += 1
        if self.due:
            connection.send(self.due.popleft())
        else:
            self.free.append(connection)
        if self.over and not self.out:
            self.all_in.set()


class _Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    due: float

    def __init__(self, load: _Load) -> None:
        self._load, self._buffer = load, bytearray()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:
        self.transport = transport

    def send(self, due: float) -> None:
        self.due = due
        self.transport.write(self._load.request)

    def connection_lost(self, _: Exception | None) -> None:
        if self in self._load.free:
            self._load.free.remove(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        length = complete(self._buffer)
        if length and len(self._buffer) >= length:
            good = self._buffer.startswith(b"HTTP/1.1 200")
            self._buffer.clear()
            self._load.answered(self, good)


async def _run(port: int, request: bytes, seconds: float, connections: int = 0, rate: float = 0.0) -> Latencies:
    loop, load = asyncio.get_running_loop(), _Load(request)
    for _ in range(connections or _MOST):
        _, connection = await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
        load.free.append(connection)
    await (_at_rate(load, rate, seconds) if rate else _closed(load, seconds))
    load.over, in_time = True, len(load.took)
    if load.out:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(load.all_in.wait(), _LINGER_S)
    middle, tail = _percentiles(load.took or [inf])
    return Latencies(in_time / seconds, middle, tail, load.refused, load.out, _percentiles(load.late or [0.0])[1])


async def _closed(load: _Load, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while (now := time.perf_counter()) < until:
        while load.free:
            load.ask(now)
        await asyncio.sleep(0)


async def _at_rate(load: _Load, rate: float, seconds: float) -> None:
    began = time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        while (due := began + load.sent / rate) <= now:
            load.late.append(now - due)
            load.ask(due)
        await asyncio.sleep(0)  # it has a core of its own, and a timer would be a millisecond late


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """Milliseconds: p50 and p99."""
    cuts = quantiles(seconds * 2, n=100)  # which wants two at least
    return cuts[49] * 1e3, cuts[98] * 1e3


def _main() -> None:
    import uvloop

    job = json.load(sys.stdin)
    job["request"] = bytes.fromhex(job["request"])
    print(json.dumps(vars(uvloop.run(_run(**job)))))


if __name__ == "__main__":
    _main()
