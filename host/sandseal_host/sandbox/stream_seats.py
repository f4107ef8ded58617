"""How many streams may have instances, and how many of them may be one tenant's."""

import threading
from collections import Counter

from sandseal_host.errors import QueueFull

MAX_STREAMS = 64
"""Whose instances one worker has at once, or without workers one stage."""


def tenant_share(most: int) -> int:
    """How many of all streams, or of their bytes, may be one tenant's: three quarters."""
    return most * 3 // 4


def share_taken(own: int, plugin: str) -> QueueFull:
    """What a tenant is told that has its share of streams."""
    return QueueFull(
        f"{own} streams of one tenant are in plugins, as many as may be: another one of {plugin!r} must wait",
        hint="let answers with constraints end before more are asked for",
        plugin=plugin,
    )


class StreamSeats:
    """The streams of one stage that have instances in this process; used by any thread.

    Args:
        plugin: for messages.
    """

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._guard = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, tenant: str) -> None:
        """Count one more.

        Raises:
            QueueFull: there are as many as may be, or as many of the tenant's.
        """
        with self._guard:
            if self._taken.total() >= MAX_STREAMS:
                raise QueueFull(f"there is no room for a stream of plugin {self._plugin!r}", plugin=self._plugin)
            if self._taken[tenant] >= tenant_share(MAX_STREAMS):
                raise share_taken(self._taken[tenant], self._plugin)
            self._taken[tenant] += 1

    def leave(self, tenant: str) -> None:
        """Count one less."""
        with self._guard:
            self._taken[tenant] -= 1
            self._taken += Counter()  # without those that have none
