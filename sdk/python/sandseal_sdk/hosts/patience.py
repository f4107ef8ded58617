"""Trying again: how often, after how long, and only where a second request cannot do harm."""

import random
import threading
from dataclasses import dataclass
from time import monotonic

from sandseal_sdk.errors import HostBusy, HostRefused, HostUnreachable, NoAnswer, NotConnected

ENDLESS_S = 1e8
"""Seconds that nobody waits: three years, which clocks still can hold."""

_EARNED = 0.1
_MOST = 10.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and after how long, a broken request is tried again.

    Args:
        tries: how many in a row may fail without a byte of progress.
        first_s: the pause after the first, doubled each time.
        longest_s: the longest pause, unless the host asks for a longer one.
    """

    tries: int = 8
    first_s: float = 0.5
    longest_s: float = 30.0

    def after(self, failures: int, error: HostRefused | HostUnreachable) -> float:
        """Seconds to wait, never quite those that others wait; raises the error after the last try."""
        if failures >= self.tries:
            raise error
        wait: float = min(self.longest_s, self.first_s * 2.0 ** (failures - 1)) * random.uniform(0.75, 1.25)  # noqa: S311
        asked = error.retry_after if isinstance(error, HostRefused) else None
        return max(wait, asked or 0.0)


CALLS = Patience(tries=4, first_s=0.1, longest_s=5.0)
"""Of calls that somebody waits for."""


class Budget:
    """What one client's second tries may cost: one for every ten calls, and ten at once; thread-safe.

    A host that refuses everything is thus asked a tenth more often, not several times as often.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._left = _MOST

    def earn(self) -> None:
        """Count a call."""
        with self._guard:
            self._left = min(_MOST, self._left + _EARNED)

    def spend(self) -> bool:
        """Whether there may be another try, which is then counted."""
        with self._guard:
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Tries:
    """The tries of one call that may be sent twice: the host was busy, or took no connection.

    Args:
        patience: how often and how long.
        budget: the client's.
        timeout: seconds that all tries together may take; None, and more than `ENDLESS_S`, for no end.
    """

    def __init__(self, patience: Patience, budget: Budget, timeout: float | None) -> None:
        self._patience, self._budget = patience, budget
        self._until = None if timeout is None or timeout > ENDLESS_S else monotonic() + timeout
        self._failures = 0
        budget.earn()

    def left(self) -> float | None:
        """Seconds that are left for another try; None for no end.

        Raises:
            NoAnswer: there are none.
        """
        if self._until is None:
            return None
        left = self._until - monotonic()
        if not left > 0:
            raise NoAnswer("the time of the call is over before it is sent")
        return left

    def pause(self, error: HostRefused | HostUnreachable) -> float:
        """Seconds to wait before the next try; raises the error where there is to be none."""
        self._failures += 1
        if not isinstance(error, HostBusy | NotConnected):
            raise error
        wait = self._patience.after(self._failures, error)
        late = self._until is not None and monotonic() + wait >= self._until
        if late or not self._budget.spend():
            raise error
        return wait
