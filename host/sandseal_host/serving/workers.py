"""Threads that run batches."""

import asyncio
import contextlib
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from sandseal_host.serving.ports import BatchRunner
from sandseal_host.serving.run import Run


class Workers:
    """A lane's threads, started when first needed; each runs one batch at a time.

    Args:
        runner: what runs batches.
        count: how many threads.
        name: of the threads.
        loop: where `done` is called.
        done: takes each run that has ended.
        settle: called once by each thread before its first run.
    """

    def __init__(
        self,
        runner: BatchRunner,
        count: int,
        name: str,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[Run], None],
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._runner, self._loop, self._done, self._settle = runner, loop, done, settle
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=f"lane-{name}-{i}", daemon=True) for i in range(count)]
        self._started = False

    def submit(self, run: Run) -> None:
        """Execute a run as soon as a thread is free."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        self._queue.put(run)

    def close(self) -> None:
        """End the threads after what was submitted; waits for them."""
        if self._started:
            for _ in self._threads:
                self._queue.put(None)
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        self._settle()
        while (run := self._queue.get()) is not None:
            run.execute(self._runner)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to answer
                self._loop.call_soon_threadsafe(self._done, run)
            del run  # no thread holds a batch's memory while it waits for the next
