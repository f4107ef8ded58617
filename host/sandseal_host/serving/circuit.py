"""When a plugin that keeps failing is left alone: a plain object that is told the time.

The rule: after `failures` failures in a row the circuit opens and nothing is tried for `pause_s`. Then one call at a
time is let through; one that works closes the circuit, one that fails opens it again for twice as long.
"""

from dataclasses import dataclass
from enum import StrEnum


class CircuitState(StrEnum):
    """What becomes of the next call."""

    CLOSED = "closed"  # it runs
    OPEN = "open"  # it is refused
    HALF_OPEN = "half-open"  # it runs if no other one does


@dataclass(frozen=True, slots=True)
class CircuitSettings:
    """When circuits open, and for how long.

    Args:
        failures: in a row, that open it.
        pause_s: seconds for which it is open the first time.
        longest_pause_s: seconds that a pause, which doubles with every probe that fails, does not exceed.
    """

    failures: int = 5
    pause_s: float = 1.0
    longest_pause_s: float = 60.0


DEFAULT = CircuitSettings()


class Circuit:
    """One plugin's circuit, for one tenant.

    Args:
        settings: when it opens.
    """

    def __init__(self, settings: CircuitSettings) -> None:
        self._settings = settings
        self._turn = 0  # grows when it opens or closes: what was begun before says nothing about now
        self._pause = 0.0
        self._until = 0.0
        self._probing = False
        self.failures = 0  # in a row
        self.openings = 0  # since it was made

    def state(self, now: float) -> CircuitState:
        """What becomes of a call now."""
        if not self._pause:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self._until else CircuitState.HALF_OPEN

    def enter(self, now: float) -> int | None:
        """Begin a call: a number for `leave`, or None when it may not be tried."""
        if self._pause:
            if self._probing or now < self._until:
                return None
            self._probing = True
        return self._turn

    def leave(self, turn: int, worked: bool | None, now: float) -> None:
        """End a call.

        Args:
            turn: what `enter` gave.
            worked: whether the plugin did; None when that was not found out.
            now: the present.
        """
        if turn != self._turn:
            return
        self._probing = False
        if worked is False:
            self.failures += 1
            if self._pause or self.failures >= self._settings.failures:
                self._open(now)
        elif worked:
            self.failures = 0
            if self._pause:
                self._turn, self._pause = self._turn + 1, 0.0

    def wait_s(self, now: float) -> float:
        """Seconds after which another call may be tried; while a probe runs, as long as the pause before it."""
        return self._until - now if now < self._until else self._pause

    def _open(self, now: float) -> None:
        settings = self._settings
        self._pause = min(settings.longest_pause_s, 2 * self._pause or settings.pause_s)
        self._until = now + self._pause
        self._turn += 1
        self.openings += 1
