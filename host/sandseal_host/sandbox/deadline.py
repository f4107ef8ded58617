"""How long one call may still run: CPU time of its thread, and wall time beside it."""

import time
from math import ceil

from sandseal_host.sandbox.ticker import TICK_S

WALL_FACTOR = 10
MIN_WALL_S = 0.1


class Deadline:
    """Counts what a call uses between `enter` and the last `count`; time in a queue never counts.

    Args:
        time_ms: CPU milliseconds per call, from the signed limits. Wall time is limited to ten times that, and at
            least 100 ms, for a guest whose thread gets no CPU.
    """

    __slots__ = ("_cpu_mark", "_wall_mark", "cpu_limit_s", "cpu_s", "wall_limit_s", "wall_s")

    def __init__(self, time_ms: int) -> None:
        self.cpu_limit_s = time_ms / 1000
        self.wall_limit_s = max(WALL_FACTOR * self.cpu_limit_s, MIN_WALL_S)
        self.cpu_s = self.wall_s = 0.0
        self._cpu_mark = self._wall_mark = 0.0

    def reset(self) -> None:
        """A new call: nothing is used yet."""
        self.cpu_s = self.wall_s = 0.0

    def enter(self) -> None:
        """A call starts on this thread."""
        self._wall_mark = time.monotonic()
        self._cpu_mark = time.thread_time()

    def count(self) -> None:
        """Count what this thread has used since `enter` or the last `count`."""
        cpu, wall = time.thread_time(), time.monotonic()
        self.cpu_s += cpu - self._cpu_mark
        self.wall_s += wall - self._wall_mark
        self._cpu_mark, self._wall_mark = cpu, wall

    def ticks(self) -> int:
        """Epoch ticks until the next look at the clock is due; 0 when the time is up."""
        left = min(self.cpu_limit_s - self.cpu_s, self.wall_limit_s - self.wall_s)
        return max(0, ceil(left / TICK_S))

    def verdict(self) -> str:
        """Which limit was reached, as a sentence goes on after the plugin's label."""
        if self.cpu_s >= self.cpu_limit_s:
            return f"used up its {self.cpu_limit_s * 1000:.0f} ms of CPU time"
        return f"did not end within {self.wall_limit_s * 1000:.0f} ms, with {self.cpu_s * 1000:.0f} ms of CPU time"
