"""One batch's run: what became of each request, and when and at what cost."""

import asyncio
import time
from collections.abc import Sequence
from copy import copy

from sandseal_host.errors import ClientError, DeadlineExpired, HostError, ModelFailed
from sandseal_host.serving.batch import Batch
from sandseal_host.serving.ports import BatchRunner, RunHandle
from sandseal_host.serving.ticket import Ticket
from sandseal_host.tensors import Tensor

Outcome = tuple[Tensor, ...] | Exception


class Run:
    """A batch on its way through a runner; executed once, on whatever thread.

    Args:
        batch: what runs.
        handle: ends it; None where nobody will.
    """

    __slots__ = ("_handle", "_why", "batch", "began", "cost", "ended", "outcomes", "timer")

    _why: HostError  # it was broken off

    began: float  # on the monotonic clock
    ended: float
    cost: float  # processor seconds of the thread
    outcomes: Sequence[Outcome]  # in the order of the batch's tickets

    def __init__(self, batch: Batch, handle: RunHandle | None = None) -> None:
        self.batch, self._handle = batch, handle
        self.timer: asyncio.TimerHandle | None = None  # the lane's, which terminates it

    def execute(self, runner: BatchRunner) -> None:
        """Run the batch; where that fails for what an input can cause, run each request alone, once."""
        self.began, spent = time.monotonic(), time.thread_time()
        tickets = self.batch.tickets
        outcomes = self._attempt(runner, tickets)
        if isinstance(outcomes, ModelFailed | ClientError) and len(tickets) > 1 and not self.terminated:
            outcomes = [self._alone(runner, ticket) for ticket in tickets]
        self.outcomes = [outcomes] * len(tickets) if isinstance(outcomes, Exception) else outcomes
        self.ended, self.cost = time.monotonic(), time.thread_time() - spent

    def terminate(self, why: HostError) -> None:
        """Break the run off, from any thread; its requests are refused with the reason given first."""
        if self._handle is not None and not self._handle.terminate:
            self._why, self._handle.terminate = why, True

    @property
    def terminated(self) -> bool:
        """Whether it was told to end."""
        return self._handle is not None and self._handle.terminate

    def _attempt(self, runner: BatchRunner, tickets: Sequence[Ticket]) -> Sequence[Outcome] | Exception:
        try:
            return runner.run([ticket.request.inputs for ticket in tickets], self._handle)
        except Exception as error:
            return copy(self._why) if self.terminated else error

    def _alone(self, runner: BatchRunner, ticket: Ticket) -> Outcome:
        if ticket.answer.done() or ticket.request.deadline <= time.monotonic():
            return DeadlineExpired("the batch failed, and no time was left to run the request alone")
        outcomes = self._attempt(runner, [ticket])
        return outcomes if isinstance(outcomes, Exception) else outcomes[0]
