"""How host callbacks find the guest that called them: it runs on their thread."""

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from sandseal_host.sandbox.deadline import Deadline
from sandseal_host.sandbox.log import GuestLog
from sandseal_host.sandbox.memory import GuestMemory

Cancelled = Callable[[], bool]
"""Whether nobody waits for a call any more."""


class Guest(Protocol):
    """What host callbacks see of the instance that is running."""

    log: GuestLog | None
    assets: Mapping[str, bytes]
    deadline: Deadline
    cancelled: Cancelled | None
    failure: BaseException | None

    def ticks(self) -> int:
        """Epoch ticks until the next look at the clock or the caller is due; 0 when the time is up."""
        ...

    def memory(self) -> GuestMemory:
        """Its linear memory as it is now."""
        ...


class GuestFault(Exception):
    """Room-internal: a host callback ends the guest.

    Args:
        trap: the code that the caller's error will carry.
        why: goes on after the plugin's label.
    """

    def __init__(self, trap: str, why: str) -> None:
        super().__init__(why)
        self.trap = trap


class _Here(threading.local):
    guest: Guest | None = None


here = _Here()
