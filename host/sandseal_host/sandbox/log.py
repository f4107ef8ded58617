"""What guests write: rate limited, escaped, and handed to whoever listens."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from sandseal_host.sandbox.printable import printable

MAX_LINE = 1024  # bytes of one line that are kept
BURST, PER_SECOND = 64, 16  # lines

# Called with the plugin's label, a level of the standard library's logging, and one line.
LogSink = Callable[[str, int, str], None]

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
_logger = logging.getLogger("sandseal.plugin")


def to_logger(label: str, level: int, line: str) -> None:
    """The default sink: logger `sandseal.plugin`."""
    _logger.log(level, "%s: %s", label, line)


class GuestLog:
    """One plugin's lines, from all its instances together: a token bucket of `BURST` lines and `PER_SECOND`.

    Args:
        label: the plugin, as the sink shows it.
        sink: gets every line that is not dropped; what it raises is ignored.
    """

    def __init__(self, label: str, sink: LogSink) -> None:
        self.label = label
        self._sink = sink
        self._lock = threading.Lock()
        self._tokens = float(BURST)
        self._filled = time.monotonic()
        self._unsaid = 0  # dropped and not yet reported
        self.lines = 0
        self.dropped = 0

    def write(self, level: int, text: bytes) -> None:
        """Hand on one line, or count it as dropped.

        Args:
            level: the ABI's: 0 debug, 1 info, 2 warning, 3 and above error.
            text: UTF-8, hopefully.
        """
        with self._lock:
            if not self._take():
                self.dropped += 1
                self._unsaid += 1
                return
            self.lines += 1
            unsaid, self._unsaid = self._unsaid, 0
        with contextlib.suppress(Exception):
            if unsaid:
                self._sink(self.label, logging.WARNING, f"({unsaid} lines dropped: too many at once)")
            self._sink(self.label, _LEVELS[min(level, 3)], printable(text, MAX_LINE))

    def _take(self) -> bool:
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._filled) * PER_SECOND)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
