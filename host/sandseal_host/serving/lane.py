"""One model's lane: a scheduler, the threads that run its batches, and the futures of those who wait."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from time import monotonic, time

from sandseal_host.errors import ClientGone, DeadlineExpired, HostError, NotReady
from sandseal_host.serving.batch import Batch
from sandseal_host.serving.cuts import Explanation
from sandseal_host.serving.ports import BatchRunner, Waiter
from sandseal_host.serving.recording import Recording
from sandseal_host.serving.request import Request, Response
from sandseal_host.serving.run import Run
from sandseal_host.serving.runtimes import RunTimes
from sandseal_host.serving.scheduler import Scheduler, SchedulerStatistics
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.tally import Tally
from sandseal_host.serving.ticket import Ticket
from sandseal_host.serving.workers import Workers

# A hand-over costs some 50 us and a fight for the interpreter lock, which gathering and splitting hold wherever they
# run; the loop may stand still for so long, but not for a millisecond (tests/serving/bench_lane.py).
INLINE_BELOW_S = 500e-6  # half of what the loop may be kept from others for


@dataclass(frozen=True, slots=True)
class LaneStatistics:
    """A lane's counts.

    Args:
        scheduler: its queue and batches.
        inline: batches that ran on the event loop's thread.
        threaded: batches that ran on the lane's threads.
        terminated: batches of those whose run was broken off: past the latest deadline in it, or wanted by nobody.
    """

    scheduler: SchedulerStatistics
    inline: int
    threaded: int
    terminated: int


class Lane:
    """Answers requests in batches; lives on one event loop.

    What arrives in one turn of the loop is scheduled together at its end. A batch whose kind was measured to be
    short runs on the loop at that point, one a turn; all others run on threads, and their results come back once
    per batch.

    Args:
        runner: runs the batches; the lane does not close it.
        settings: bounds of queue and batches.
        name: for threads and messages.
        inline_below_s: processor seconds below which a batch may run on the loop; 0 = never, as it must be where
            the processor's time is not the run's (a GPU).
        settle: called once by each thread that runs batches, before the first.
    """

    def __init__(
        self,
        runner: BatchRunner,
        settings: SchedulerSettings,
        *,
        name: str = "model",
        inline_below_s: float = INLINE_BELOW_S,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._runner, self._name, self._inline_below_s = runner, name, inline_below_s
        self._loop = asyncio.get_running_loop()
        self._scheduler = Scheduler(settings)
        self._workers = Workers(runner, settings.instances, name, self._loop, self._settle, settle)
        self._run_times = RunTimes()
        self._runs: set[Run] = set()  # on threads
        self._pumping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._closing = False
        self._refusal: HostError | None = None  # of what is still to come
        self._idle = asyncio.Event()
        self._inline = self._threaded = self._terminated = 0
        self.tally = Tally()
        self._recordings: tuple[Recording, ...] = ()

    async def run(self, request: Request) -> Response:
        """Answer a request with the model's outputs; `timings` has `queue` and `run`.

        A caller that is cancelled leaves the queue at once. A run is broken off past the latest deadline in its batch,
        and when nobody in it is left who wants an answer.

        Raises:
            RequestInvalid, QueueFull, DeadlineImpossible, DeadlineExpired: see `Scheduler.add`.
            NotReady: the lane is closing.
            HostError: see `withdraw`.
            ModelError, MemoryExhausted: the run failed.
        """
        answer: asyncio.Future[Response] = self._loop.create_future()
        self.submit(request, answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # answered in the turn in which its caller was cancelled: it was looked at
            self.forget(request.id)
            raise

    def submit(self, request: Request, answer: Waiter) -> None:
        """Queue a request that is answered later, through `answer`.

        Raises:
            HostError: as `run` raises before it waits.
        """
        if self._closing:
            raise self._closed()
        ticket = Ticket(request, self._runner.bucket(request.inputs), answer)
        now = monotonic()
        for recording in self._recordings:
            recording.note(request, now)
        self._scheduler.add(ticket, now)
        if not self._pumping:
            self._pump_soon()

    def forget(self, request_id: int) -> None:
        """Take out a request that nobody wants an answer for; its answer must be `done`."""
        if self._scheduler.discard(request_id) is None:
            for run in self._runs:
                if all(other.answer.done() for other in run.batch.tickets):
                    run.terminate(ClientGone("nobody in the batch wants an answer any more"))
        self._note_idle()

    async def close(self, timeout_s: float | None = None) -> None:
        """Take no more requests, answer those that wait and run, and end the threads.

        Args:
            timeout_s: seconds after which what still waits is refused, and what runs is broken off; None = no bound.
        """
        self._closing = True
        self._note_idle()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            for ticket in self._scheduler.clear():
                _refuse(ticket, self._closed())
            for run in self._runs:
                run.terminate(self._closed())
            self._note_idle()
            await self._idle.wait()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.to_thread(self._workers.close)

    def withdraw(self, error: HostError) -> None:
        """Refuse with this what waits and what is still to come; running batches end, and `close` waits for them."""
        self._closing, self._refusal = True, error
        for ticket in self._scheduler.clear():
            _refuse(ticket, self._closed())
        self._note_idle()

    @contextmanager
    def recorded(self) -> Iterator[Recording]:
        """Take down when requests arrive, and in which shapes, for as long as the block lasts."""
        recording = Recording(monotonic())
        self._recordings += (recording,)
        try:
            yield recording
        finally:
            self._recordings = tuple(each for each in self._recordings if each is not recording)

    @property
    def refused(self) -> int:
        """Requests that were refused, or whose time ran out while they waited."""
        scheduler = self._scheduler.statistics()
        return scheduler.expired + sum(scheduler.refused.values())

    def explain(self) -> Explanation:
        """What waits and runs, and why the last batches were cut."""
        statistics = self._scheduler.statistics()
        return Explanation(statistics.waiting, statistics.running, self._scheduler.explain())

    @property
    def settings(self) -> SchedulerSettings:
        """The bounds of queue and batches."""
        return self._scheduler.settings

    def statistics(self) -> LaneStatistics:
        """The counts at this moment."""
        return LaneStatistics(self._scheduler.statistics(), self._inline, self._threaded, self._terminated)

    def _closed(self) -> HostError:
        if self._refusal is not None:
            return copy(self._refusal)  # each has a traceback of its own
        return NotReady(f"{self._name} is being unloaded", model=self._name)

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Do all that is due: refuse what expired, start batches, set the timer for what comes next."""
        self._pumping = False
        now = monotonic()
        for ticket in self._scheduler.expire(now):
            _refuse(ticket, DeadlineExpired(f"no turn within {now - ticket.queued:.3g} s of waiting"))
        while (batch := self._scheduler.next_batch(now)) is not None:
            if self._run_times.seconds(batch) < self._inline_below_s:
                self._inline += 1
                run = Run(batch)
                run.execute(self._runner)
                self._settle(run)
                break  # the rest in the next turn: the loop has others to serve
            self._threaded += 1
            run = self._terminable(batch, now)
            self._runs.add(run)
            self._workers.submit(run)
        if not self._pumping:
            self._set_timer(now)
        self._note_idle()

    def _terminable(self, batch: Batch, now: float) -> Run:
        """A run that is broken off past the latest deadline in its batch."""
        run = Run(batch, self._runner.handle())
        if (latest := batch.latest_deadline) < float("inf"):
            why = DeadlineExpired("the run was broken off: it took longer than every deadline in its batch")
            run.timer = self._loop.call_later(max(0.0, latest - now), run.terminate, why)
        return run

    def _settle(self, run: Run) -> None:
        """Answer a batch's requests, on the loop."""
        batch, began = run.batch, run.began
        if run.timer is not None:
            run.timer.cancel()
        self._terminated += run.terminated
        self._runs.discard(run)
        self._scheduler.done(batch, run.ended)
        self._run_times.record(batch, run.cost)
        run_s = run.ended - began
        tally = self.tally
        tally.batch(batch.rows, run_s, time())
        for ticket, outcome in zip(batch.tickets, run.outcomes, strict=True):
            answer = ticket.answer
            if answer.done():
                continue
            if isinstance(outcome, Exception):
                tally.failed += 1
                answer.set_exception(outcome)
            else:
                queue_s = began - ticket.queued
                tally.answered(ticket.request.rows, queue_s, run_s)
                answer.set_result(Response(outcome, {"queue": queue_s, "run": run_s}))
        if self._scheduler.empty:
            self._note_idle()
        else:
            self._pump_soon()

    def _set_timer(self, now: float) -> None:
        """Keep one timer, at or before the time at which the scheduler wants to be called."""
        wake_at = self._scheduler.wake_at()
        if wake_at is None or wake_at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = wake_at
        self._timer = self._loop.call_later(max(0.0, wake_at - now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        self._pump_soon()

    def _note_idle(self) -> None:
        if self._closing and self._scheduler.idle:
            self._idle.set()


def _refuse(ticket: Ticket, error: Exception) -> None:
    if not ticket.answer.done():
        ticket.answer.set_exception(error)
