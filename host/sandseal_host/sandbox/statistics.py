"""Counts of what plugins and their pools did."""

import threading
from dataclasses import dataclass

from sandseal_host.errors import ClientError


@dataclass(frozen=True, slots=True)
class PluginStatistics:
    """One plugin since it was compiled.

    Args:
        calls: calls that ended, however they did.
        refused: of these, inputs that the plugin or its spec refused.
        failed: of these, traps, timeouts and bad outputs.
        cpu_s: seconds of CPU time in guest code.
        log_lines: lines handed on.
        log_dropped: lines dropped by the rate limit.
    """

    calls: int
    refused: int
    failed: int
    cpu_s: float
    log_lines: int
    log_dropped: int


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


class Tally:
    """The counts of one plugin's calls, added to by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = self.refused = self.failed = 0
        self.cpu_s = 0.0

    def add(self, error: BaseException | None, cpu_s: float) -> None:
        """Count a call that ended with `error`, or well."""
        with self._lock:
            self.calls += 1
            self.refused += isinstance(error, ClientError)
            self.failed += error is not None and not isinstance(error, ClientError)
            self.cpu_s += cpu_s
