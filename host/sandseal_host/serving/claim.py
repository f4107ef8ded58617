"""How a request that has no task of its own reaches whoever waits for its answer."""

import asyncio
from collections.abc import Callable

from sandseal_host.serving.lane import Lane
from sandseal_host.serving.ports import Waiter
from sandseal_host.serving.request import Response


class Claim:
    """A request's hold on a model while it is in the lane: a waiter to the lane, and what takes the request back.

    Args:
        lane: answers it.
        request_id: the request's.
        waiter: gets the answer.
        release: ends the hold; called once, when the answer is there or the request is taken back.
    """

    __slots__ = ("_lane", "_release", "_request_id", "_waiter", "done")

    def __init__(self, lane: Lane, request_id: int, waiter: Waiter, release: Callable[[], None]) -> None:
        self._lane, self._request_id, self._waiter, self._release = lane, request_id, waiter, release
        self.done = waiter.done

    def set_result(self, result: Response) -> None:
        """Pass the response on."""
        self._release()
        self._waiter.set_result(result)

    def set_exception(self, exception: Exception) -> None:
        """Pass the reason on why there will be none."""
        self._release()
        self._waiter.set_exception(exception)

    def cancel(self) -> None:
        """Take the request back; the waiter is done."""
        self._release()
        self._lane.forget(self._request_id)


def hand_over(waiter: Waiter, task: asyncio.Task[Response]) -> None:
    """Let a waiter have what became of a task, unless it has gone."""
    if task.cancelled():
        return
    error = task.exception()
    if waiter.done():
        return
    if error is None:
        waiter.set_result(task.result())
    elif isinstance(error, Exception):
        waiter.set_exception(error)
