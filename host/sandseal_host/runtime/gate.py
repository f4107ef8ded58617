"""Many may, or one alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class Gate:
    """Lets any number of threads through, or one while no other is within; who wants to be alone goes first."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._within = self._waiting = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Be within together with others; blocks while somebody is alone, or waits to be."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._within += 1
        try:
            yield
        finally:
            with self._changed:
                self._within -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be within while nobody else is; blocks until then."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._alone and not self._within)
            self._waiting -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
