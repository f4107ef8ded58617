"""The clock that guest deadlines are counted in: an engine's epoch, advanced once a tick while guests run."""

import threading
import time
from collections.abc import Callable

from sandseal_host.errors import NotReady

TICK_S = 0.002
_LINGER = 500  # ticks after the last call before the thread sleeps: an idle host should idle


class Ticker:
    """One thread per engine that calls `advance` every `TICK_S` seconds while calls run.

    A late tick (the GIL was taken) is made up for, so that the epoch stays a clock.

    Args:
        advance: increments the engine's epoch; called only until `close` returns.
        sleep, clock: seconds as the thread spends and counts them.
    """

    def __init__(
        self,
        advance: Callable[[], None],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._advance, self._pause, self._clock = advance, sleep, clock
        self._running = 0
        self._asleep = self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="sandseal-ticker", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """A call starts: keep ticking.

        Raises:
            NotReady: the engine is closed, so nothing would stop the call.
        """
        with self._changed:
            if self._closing:
                raise NotReady("the sandbox engine is closed")
            self._running += 1
            if self._asleep:
                self._changed.notify()

    def end(self) -> None:
        """The call has ended."""
        with self._changed:
            self._running -= 1

    def close(self) -> None:
        """Let no new call begin, tick on until the running ones have ended, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        last, quiet = self._clock(), 0
        while self._running or not self._closing:
            self._pause(TICK_S)
            now = self._clock()
            for _ in range(max(1, round((now - last) / TICK_S))):
                self._advance()
            last, quiet = now, 0 if self._running else quiet + 1
            if quiet > _LINGER:
                self._sleep()
                last, quiet = self._clock(), 0

    def _sleep(self) -> None:
        with self._changed:
            self._asleep = True
            self._changed.wait_for(lambda: self._running or self._closing)
            self._asleep = False
