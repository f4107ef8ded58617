"""A stage's calls in order of urgency, over a few threads."""

import asyncio
import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sandseal_host.errors import DeadlineExpired, QueueFull, ShuttingDown
from sandseal_host.sandbox.guest import Cancelled
from sandseal_host.sandbox.plugin import Plugin
from sandseal_host.sandbox.statistics import PluginStatistics, PoolStatistics
from sandseal_host.sandbox.stream import PluginStream
from sandseal_host.sandbox.stream_seats import StreamSeats
from sandseal_host.tensors import Tensor

_LONGEST_TIMER = 1e6  # seconds; event loops do not take infinity

Work = Callable[[Cancelled], tuple[Tensor, ...]]
"""A call, which may ask whether its caller has left."""


@dataclass(order=True, slots=True)
class _Job:
    urgency: float
    number: int
    work: Work = field(compare=False)
    deadline: float = field(compare=False)
    loop: asyncio.AbstractEventLoop = field(compare=False)
    answer: "asyncio.Future[tuple[Tensor, ...]]" = field(compare=False)
    left: threading.Event = field(default_factory=threading.Event, compare=False)

    def settle(self, outputs: tuple[Tensor, ...] | None, error: BaseException | None) -> None:
        """Hand the answer to the caller's loop, from any thread; nobody may be left there."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._set, outputs, error)

    def _set(self, outputs: tuple[Tensor, ...] | None, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(outputs or ())


class StagePool:
    """Runs a plugin's calls, the most urgent first; what serving calls a `StageRunner`.

    Args:
        plugin: closed with the pool.
        threads: calls that run at once.
        max_waiting: calls that may wait; more are refused.
    """

    def __init__(self, plugin: Plugin, threads: int, *, max_waiting: int = 1024) -> None:
        self._plugin, self._seats = plugin, StreamSeats(plugin.label)
        self._max_waiting = max_waiting
        self._queue: list[_Job] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._running = self._done = self._expired = self._cancelled = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"sandseal-stage-{i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def apply(
        self, inputs: tuple[Tensor, ...], parameters: bytes, urgency: float, deadline: float
    ) -> tuple[Tensor, ...]:
        """Run the stage on one request's tensors.

        Args:
            inputs: in the order of the stage's spec.
            parameters: the request's parameters, UTF-8 JSON.
            urgency: virtual deadline on the monotonic clock; the earliest runs first.
            deadline: seconds on the monotonic clock after which the call is not begun.

        Raises:
            QueueFull: `max_waiting` calls wait already.
            DeadlineExpired: not begun in time.
            ShuttingDown: the pool is closed.
            InputRefused: the plugin refuses the input.
            PluginError: it trapped, ran too long, or returned nonsense.
        """
        return await self.run(partial(self._plugin.call, inputs, parameters), urgency, deadline)

    def stream(self, parameters: bytes, target_s: float, tenant: str) -> PluginStream:
        """An instance for one stream, whose calls wait in the same queue; see `WorkerStage.stream`."""
        return PluginStream(self._plugin.instance, self.run, self._seats, parameters, target_s, tenant)

    async def run(self, work: Work, urgency: float, deadline: float) -> tuple[Tensor, ...]:
        """Let a thread do work in its turn; arguments and errors as those of `apply`."""
        loop = asyncio.get_running_loop()
        job = _Job(urgency, next(self._numbers), work, deadline, loop, loop.create_future())
        self._add(job)
        wait = min(max(deadline - time.monotonic(), 0.0), _LONGEST_TIMER)
        timer = loop.call_later(wait, self._expire, job)
        try:
            return await job.answer
        except asyncio.CancelledError:
            job.left.set()  # which the guest's thread looks at, if it is running
            self._cancelled += self._take_back(job)
            raise
        finally:
            timer.cancel()
            del job  # an error holds this frame; with the job in it, it would hold itself

    def statistics(self) -> PoolStatistics:
        """What waits and runs now, and counts since the pool was made."""
        with self._changed:
            return PoolStatistics(
                len(self._threads), len(self._queue), self._running, self._done, self._expired, self._cancelled
            )

    def plugin_statistics(self) -> PluginStatistics:
        """Counts of the plugin's calls since it was compiled."""
        return self._plugin.statistics()

    def close(self) -> None:
        """Refuse what waits, let running calls end within their limits, and close the plugin."""
        with self._changed:
            self._closed = True
            waiting, self._queue = self._queue, []
            self._changed.notify_all()
        for job in waiting:
            job.settle(None, ShuttingDown(f"plugin {self._plugin.label!r} is being unloaded"))
        for thread in self._threads:
            thread.join()
        self._plugin.close()

    def _add(self, job: _Job) -> None:
        with self._changed:
            if self._closed:
                raise ShuttingDown(f"plugin {self._plugin.label!r} is being unloaded")
            if len(self._queue) >= self._max_waiting:
                raise QueueFull(
                    f"{len(self._queue)} calls of plugin {self._plugin.label!r} wait already",
                    plugin=self._plugin.label,
                )
            heapq.heappush(self._queue, job)
            self._changed.notify()

    def _take_back(self, job: _Job) -> bool:
        """Remove a job that no thread has taken yet."""
        with self._changed:
            if job not in self._queue:
                return False
            self._queue.remove(job)
            heapq.heapify(self._queue)
            return True

    def _expire(self, job: _Job) -> None:
        if self._take_back(job):
            job.settle(None, self._late())

    def _late(self) -> DeadlineExpired:
        with self._changed:
            self._expired += 1
        return DeadlineExpired(
            f"the request's time ran out before plugin {self._plugin.label!r} could start", stage=self._plugin.label
        )

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.settle(*self._attempt(job))
            del job  # the call is answered: hold neither its tensors while waiting, nor its error in a cycle

    def _next(self) -> _Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if not self._queue:
                return None
            self._running += 1
            return heapq.heappop(self._queue)

    def _attempt(self, job: _Job) -> tuple[tuple[Tensor, ...] | None, BaseException | None]:
        try:
            if time.monotonic() >= job.deadline:
                raise self._late()
            return job.work(job.left.is_set), None
        except BaseException as error:
            return None, error
        finally:
            with self._changed:
                self._running -= 1
                self._done += 1
            del job  # an error holds this frame; with the job in it, it would hold itself
