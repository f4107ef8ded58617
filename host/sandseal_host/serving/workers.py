"""Threads that run batches."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread

from sandseal_host.errors import ClientError, ModelFailed
from sandseal_host.serving.batch import Batch
from sandseal_host.serving.ports import BatchRunner
from sandseal_host.serving.ticket import Ticket
from sandseal_host.tensors import Tensor

Outcome = tuple[Tensor, ...] | Exception


class Ran:
    """A batch that has run: what became of each request, in order, and when and at what cost.

    Args:
        batch: what ran.
        runner: runs it, now.
    """

    __slots__ = ("batch", "began", "cost", "ended", "outcomes")

    def __init__(self, batch: Batch, runner: BatchRunner) -> None:
        self.batch = batch
        self.began, spent = time.monotonic(), time.thread_time()
        self.outcomes = _run(runner, batch.tickets)
        self.ended, self.cost = time.monotonic(), time.thread_time() - spent


def _run(runner: BatchRunner, tickets: Sequence[Ticket]) -> Sequence[Outcome]:
    """Run requests together; where that fails for what an input can cause, run each alone, once."""
    try:
        return runner.run([ticket.request.inputs for ticket in tickets])
    except (ModelFailed, ClientError) as error:
        return [error] if len(tickets) == 1 else [_run(runner, [ticket])[0] for ticket in tickets]
    except Exception as error:
        return [error] * len(tickets)


class Workers:
    """A lane's threads, started when first needed; each runs one batch at a time.

    Args:
        runner: what runs batches.
        count: how many threads.
        name: of the threads.
        loop: where `done` is called.
        done: takes each batch that has run.
    """

    def __init__(
        self,
        runner: BatchRunner,
        count: int,
        name: str,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[Ran], None],
    ) -> None:
        self._runner, self._loop, self._done = runner, loop, done
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=f"lane-{name}-{i}", daemon=True) for i in range(count)]
        self._started = False

    def submit(self, batch: Batch) -> None:
        """Run a batch as soon as a thread is free."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        self._queue.put(batch)

    def close(self) -> None:
        """End the threads after what was submitted; waits for them."""
        if self._started:
            for _ in self._threads:
                self._queue.put(None)
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (batch := self._queue.get()) is not None:
            ran = Ran(batch, self._runner)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to answer
                self._loop.call_soon_threadsafe(self._done, ran)
            del batch, ran  # no thread holds a batch's memory while it waits for the next
