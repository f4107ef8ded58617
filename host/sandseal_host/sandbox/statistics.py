"""Counts of what plugins and their pools did."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sandseal_host.errors import ClientError, ClientGone, PluginTrapped
from sandseal_host.sandbox.log import GuestLog

_MAX_TRAPS = 64  # codes; wasmtime has some fifty


@dataclass(frozen=True, slots=True)
class InstanceUsage:
    """What one instance has used since it was made.

    Args:
        fuel: instructions; 0 where the engine does not count them.
        memory_bytes: the size of its linear memory, which never shrinks.
        cpu_s: CPU seconds of its last call; of the first, `_initialize` included.
    """

    fuel: int
    memory_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class PluginStatistics:
    """One plugin since it was compiled.

    Args:
        calls: calls that ended, however they did.
        refused: of these, inputs that the plugin or its spec refused.
        failed: of these, traps, timeouts and bad outputs.
        cancelled: of these, calls whose caller left while they ran.
        lost: times that a call's worker process ended or was ended under it.
        traps: of the failed ones, by trap code.
        cpu_s: seconds of CPU time in guest code.
        wall_s: seconds between the beginnings and ends of calls; what they waited before does not count.
        memory_bytes: the largest linear memory that an instance had.
        log_lines: lines handed on.
        log_dropped: lines dropped by the rate limit.
        in_bytes_total: of inputs, copied once into the guest; with workers into the region, and there once again.
        out_bytes_total: of outputs, copied likewise.
    """

    calls: int
    refused: int
    failed: int
    cancelled: int
    lost: int
    traps: Mapping[str, int]
    cpu_s: float
    wall_s: float
    memory_bytes: int
    log_lines: int
    log_dropped: int
    in_bytes_total: int
    out_bytes_total: int


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """One stage pool now, and since it was made.

    Args:
        threads: how many calls can run at once.
        waiting: calls in the queue.
        running: calls in a guest.
        done: calls that a thread took, however they ended.
        expired: calls whose deadline passed before they began.
        cancelled: calls whose caller left while they were queued.
    """

    threads: int
    waiting: int
    running: int
    done: int
    expired: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """The sandbox workers now, and since they were started.

    Args:
        workers: how many there should be.
        ready: how many can be handed calls.
        waiting: calls in the queue.
        handed: calls that workers have.
        done: calls that were answered, however they ended.
        expired: calls whose deadline passed before they were handed over.
        cancelled: calls whose caller left before they were handed over.
        restarts: workers that were replaced.
    """

    workers: int
    ready: int
    waiting: int
    handed: int
    done: int
    expired: int
    cancelled: int
    restarts: int


class Tally:
    """The counts of one plugin's calls, added to by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = self._refused = self._failed = self._cancelled = self._lost = 0
        self._traps: Counter[str] = Counter()
        self._cpu_s = self._wall_s = 0.0
        self._memory_bytes = self._in_bytes = self._out_bytes = 0

    def add(self, error: BaseException | None, *, cpu_s: float, wall_s: float, memory_bytes: int) -> None:
        """Count a call that ended with `error`, or well."""
        with self._lock:
            self._calls += 1
            if isinstance(error, ClientGone):
                self._cancelled += 1
            elif isinstance(error, ClientError):
                self._refused += 1
            elif error is not None:
                self._failed += 1
            if isinstance(error, PluginTrapped):
                code = str(error.data.get("trap", "unknown"))
                # A worker that was taken over may make codes up, which must not become metrics without end.
                self._traps[code if code in self._traps or len(self._traps) < _MAX_TRAPS else "other"] += 1
            self._cpu_s += cpu_s
            self._wall_s += wall_s
            self._memory_bytes = max(self._memory_bytes, memory_bytes)

    def copy(self, *, inward: int = 0, outward: int = 0) -> None:
        """Count bytes that were copied."""
        with self._lock:
            self._in_bytes += inward
            self._out_bytes += outward

    def lose(self) -> None:
        """Count a call whose worker ended under it."""
        with self._lock:
            self._lost += 1

    def statistics(self, log: GuestLog) -> PluginStatistics:
        """The counts at this moment."""
        with self._lock:
            return PluginStatistics(
                self._calls, self._refused, self._failed, self._cancelled, self._lost, dict(self._traps),
                self._cpu_s, self._wall_s, self._memory_bytes, log.lines, log.dropped,
                self._in_bytes, self._out_bytes,
            )  # fmt: skip
