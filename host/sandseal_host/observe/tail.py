"""What makes a Python process's slowest answers slow, kept small and measured: collections, and waits for turns."""

import asyncio
import contextlib
import gc
import sys
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import Any

_THRESHOLD = 10_000  # objects; the default of 700 is reached by the requests in flight alone
# Where the event loop computes, a thread whose run is done waits for this long (tests/observe/measure_switch.py).
_SWITCH_S = 500e-6
_PROBE_S = 0.05
_BOUNDS_S = (100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1.0, inf)


class Waits:
    """Counts seconds by size; written by one thread."""

    def __init__(self) -> None:
        self._counts = [0] * len(_BOUNDS_S)
        self.seconds = 0.0

    def record(self, seconds: float) -> None:
        """Count a wait."""
        self._counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self.seconds += seconds

    def histogram(self) -> Mapping[float, int]:
        """Counts by upper bound."""
        return dict(zip(_BOUNDS_S, self._counts, strict=True))


@dataclass(frozen=True, slots=True)
class TailStatistics:
    """What kept the event loop's thread and others from running.

    Args:
        gc_pause_s_histogram, gc_pause_s_sum: garbage collections, in which every thread stands still.
        loop_lag_s_histogram, loop_lag_s_sum: from a callback's hand-over to the event loop to its turn.
        lock_wait_s_histogram, lock_wait_s_sum: from the end of a thread's sleep until it had a core and the interpreter
            lock.
        frozen_objects: that no collection looks at.
    """

    gc_pause_s_histogram: Mapping[float, int]
    gc_pause_s_sum: float
    loop_lag_s_histogram: Mapping[float, int]
    loop_lag_s_sum: float
    lock_wait_s_histogram: Mapping[float, int]
    lock_wait_s_sum: float
    frozen_objects: int


class SteadyTail:
    """Sets the process up for even answers, and measures what still disturbs them; one a process."""

    def __init__(self) -> None:
        self._pauses, self._lags, self._locks = Waits(), Waits(), Waits()
        self._began = 0.0
        self._before: tuple[Any, ...] | None = None
        self._stop = Event()
        self._probe = Thread(target=self._watch, name="tail-probe", daemon=True)

    def start(self) -> None:
        """Take what exists by now out of every later collection, and begin to measure; called on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._before = gc.get_threshold(), sys.getswitchinterval()
        gc.callbacks.append(self._note_collection)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_THRESHOLD, 10, 10)
        sys.setswitchinterval(_SWITCH_S)
        self._probe.start()

    def close(self) -> None:
        """Stop measuring, and leave the process as it was."""
        if self._before is None:
            return
        threshold, interval = self._before
        self._before = None
        self._stop.set()
        self._probe.join()
        gc.callbacks.remove(self._note_collection)
        gc.set_threshold(*threshold)
        gc.unfreeze()
        sys.setswitchinterval(interval)

    def statistics(self) -> TailStatistics:
        """The counts at this moment."""
        return TailStatistics(
            self._pauses.histogram(),
            self._pauses.seconds,
            self._lags.histogram(),
            self._lags.seconds,
            self._locks.histogram(),
            self._locks.seconds,
            gc.get_freeze_count(),
        )

    def _note_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = monotonic()
        else:
            self._pauses.record(monotonic() - self._began)

    def _watch(self) -> None:
        """On a thread of its own: how late it gets to run, and how late what it hands to the loop does."""
        due = monotonic() + _PROBE_S
        while not self._stop.wait(max(0.0, due - monotonic())):
            now = monotonic()
            self._locks.record(max(0.0, now - due))
            due = now + _PROBE_S
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._note_turn, now)

    def _note_turn(self, handed_over: float) -> None:
        self._lags.record(monotonic() - handed_over)
