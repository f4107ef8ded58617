"""Work that can be broken off, for a reason that those who wait for it are told."""

import asyncio
from collections.abc import Awaitable
from copy import copy
from typing import TypeVar

from sandseal_host.errors import HostError

_Result = TypeVar("_Result")


class Breakable:
    """The work of some tasks, each of which does other things before and after."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._why: HostError | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def break_off(self, why: HostError) -> None:
        """Cancel what is under way, whose waiters get a copy of this error."""
        self._why = why
        for task in self._tasks:
            task.cancel()

    async def run(self, work: Awaitable[_Result]) -> _Result:
        """Await work of the calling task.

        Raises:
            HostError: it was broken off.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # every coroutine of a loop runs in a task
        self._tasks.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if self._why is not None and task.uncancel() == 0:  # nobody else cancelled it
                raise copy(self._why) from None
            raise
        finally:
            self._tasks.discard(task)
