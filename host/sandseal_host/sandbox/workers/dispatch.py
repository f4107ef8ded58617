"""Handing calls to workers and taking their answers.

A worker is handed a call as soon as it has room, the least busy one first, and several calls at once where they are
short: the most urgent first, be it the queue's or that of a stream whose instance the worker has. It answers in the
order in which it was handed them, so the first that it has is the one that it runs.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from typing import Any

from sandseal_host.errors import PluginLost, PluginTimeout, QueueFull
from sandseal_host.sandbox.stream_seats import MAX_STREAMS, share_taken, tenant_share
from sandseal_host.sandbox.workers.call import Call, Stage, Stay
from sandseal_host.sandbox.workers.process import WorkerProcess
from sandseal_host.sandbox.workers.protocol import (
    Answer,
    BrokenMessage,
    Kind,
    pack_order,
    read_answer,
    read_log,
    read_ready,
)
from sandseal_host.sandbox.workers.queue import CallQueue
from sandseal_host.sandbox.workers.taking import LONG, Taking
from sandseal_host.tensors import Tensor
from sandseal_signing.errors import SandsealError

AHEAD_S = 0.002  # a worker is handed more while what it has takes less than this, as far as is known
GRACE_S = 0.5  # beyond a call's limit of wall time, which its worker should keep by itself
LOAD_S = 10.0  # more, for each plugin that the worker loads before
RETRIES = 2

_END = object()
_PRELOADED = 64  # plugins, which a new worker gets before they are needed; a socket takes some hundred messages
_WATCH_S = 0.1  # between two looks at whether a worker hangs
_MAX_LINES = 5_000  # that a worker may log between two such looks


class Dispatcher:
    """Workers that can be handed calls, and the calls that they have; on an event loop.

    Args:
        queue: where calls come from, and go back to when a worker is lost.
        stages: by number.
        on_change: called when there are more or fewer workers that are ready.
        stream_bytes: of a worker's memory, from which on it takes no more streams.
    """

    def __init__(
        self, queue: CallQueue, stages: Mapping[int, Stage], on_change: Callable[[], None], stream_bytes: int
    ) -> None:
        self._loop, self._stream_bytes = asyncio.get_running_loop(), stream_bytes
        self._queue, self._stages, self._on_change = queue, stages, on_change
        self._watching: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.ready: list[WorkerProcess] = []
        self.missing: tuple[str, ...] = ()
        self.done = 0

    async def serve(self, worker: WorkerProcess, start_s: float) -> str:
        """Hand calls to a worker until it is lost; why it is.

        Args:
            worker: just started.
            start_s: within which it must be ready.
        """
        worker.lost = self._loop.create_future()
        late = self._loop.call_later(start_s, self._too_late, worker, start_s)
        self._loop.add_reader(worker.fileno(), self._read, worker)
        try:
            return await asyncio.shield(worker.lost)
        finally:
            late.cancel()
            self._loop.remove_reader(worker.fileno())
            self._lose(worker, "is not needed any more")
            self.dispatch()

    def dispatch(self) -> None:
        """Hand over what there is room for."""
        handed: dict[WorkerProcess, list[Call]] = {}
        while worker := self._least_busy():
            call = self._next(worker)
            if call is not None and not call.answer.done() and self._write(worker, call):
                handed.setdefault(worker, []).append(call)
        for worker, calls in handed.items():
            self._hand(worker, calls)

    def seat(self, stay: Stay, stage: Stage) -> None:
        """Choose the worker of a stream, the one with the fewest.

        Raises:
            QueueFull: there is none that could take one more, or the tenant has its part of all that there may be.
        """
        plugin, workers = stage.label, len(self.ready)
        own = [
            other.nbytes for worker in self.ready for other in worker.streams.values() if other.tenant == stay.tenant
        ]
        roomy = [worker for worker in self.ready if self._has_room(worker)]
        if not roomy:
            raise QueueFull(f"no sandbox worker has room for a stream of plugin {plugin!r}", plugin=plugin)
        if len(own) >= tenant_share(MAX_STREAMS * workers) or sum(own) >= tenant_share(self._stream_bytes * workers):
            raise share_taken(len(own), plugin)
        stay.worker = min(roomy, key=lambda worker: len(worker.streams))
        stay.worker.streams[stay.number] = stay

    def send(self, call: Call, worker: WorkerProcess) -> None:
        """Let a call wait for the worker that its stream's instance lives in."""
        if worker.lost.done():
            self._try_again(call)
        else:
            heapq.heappush(worker.waiting, call)
            self.dispatch()

    def load(self, worker: WorkerProcess, stage: Stage) -> None:
        """Give a worker a plugin."""
        worker.allowance_s += LOAD_S
        with self._lost_if_unreachable(worker):
            worker.load(stage.number, stage.file)

    def abandon(self, call: Call) -> None:
        """Let a call go whose caller has left: it is not handed over, or its worker ends it."""
        if call.worker is None:
            if call.stay is None:
                self._queue.cancel(call)
        elif not call.worker.lost.done():
            call.worker.region.cancel(call.slot)

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _too_late(self, worker: WorkerProcess, start_s: float) -> None:
        if worker not in self.ready:
            self._lose(worker, f"was not ready after {start_s:g} s")

    def _has_room(self, worker: WorkerProcess) -> bool:
        """Whether a worker can take one more stream, and keep half of its memory for calls that are no stream's."""
        held = sum(stay.nbytes for stay in worker.streams.values())
        return len(worker.streams) < MAX_STREAMS and held < self._stream_bytes

    def _least_busy(self) -> WorkerProcess | None:
        """The worker that should be handed something next, if there is anything that it could be."""
        now, queued = time.monotonic(), len(self._queue) > 0
        roomy = [(worker.busy_s(now), worker) for worker in self.ready if worker.free and (queued or worker.waiting)]
        busy_s, worker = min(roomy, key=itemgetter(0), default=(AHEAD_S, None))
        return worker if busy_s < AHEAD_S else None

    def _next(self, worker: WorkerProcess) -> Call | None:
        """The most urgent call that a worker could be handed."""
        first = self._queue.first()
        if worker.waiting and (first is None or worker.waiting[0] < first):
            return heapq.heappop(worker.waiting)
        return self._queue.pop()

    def _write(self, worker: WorkerProcess, call: Call) -> bool:
        """Put a call's data where the worker finds it; whether that is done, or goes on."""
        if call.stage.number not in worker.known:
            self.load(worker, call.stage)
            if worker.lost.done():
                self._try_again(call)
                return False
        call.slot, call.worker = worker.free.pop(), worker
        worker.region.cancel(call.slot, cancelled=False)
        if not worker.handed:
            worker.since = time.monotonic()
        writing = worker.region.write(call.slot, call.layout, call.inputs, call.parameters)
        call.stage.tally.copy(inward=sum(tensor.nbytes for tensor in call.inputs))
        if call.layout.outputs_at > LONG:
            worker.writing.append(call)
            self._go_on(self._write_slowly(worker, call, writing))
            return False
        _exhaust(writing)
        worker.handed.append(call)
        return True

    async def _write_slowly(self, worker: WorkerProcess, call: Call, writing: Iterator[None]) -> None:
        """Put a large call's data there, with turns for others in between, and hand it over."""
        written = await _exhaust_slowly(worker, writing)
        worker.writing.remove(call)
        if not written:
            self._try_again(call)
            return
        if not worker.handed:
            worker.since = time.monotonic()
        worker.handed.append(call)
        self._hand(worker, [call])

    def _hand(self, worker: WorkerProcess, calls: Sequence[Call]) -> None:
        """Tell a worker of calls whose data it has."""
        with self._lost_if_unreachable(worker):
            worker.order([pack_order(call.order()) for call in calls])
        if self._watching is None:
            self._watching = self._loop.call_later(_WATCH_S, self._watch)

    def _read(self, worker: WorkerProcess) -> None:
        """Take what a worker says; called when there is something."""
        if worker.lost.done():
            return
        try:
            for message in worker.receive():
                if not message:
                    self._lose(worker, "has ended")
                    return
                self._take(worker, message[0], message[1:])
        except BrokenMessage as error:
            self._lose(worker, f"makes no sense: {error}")
        except OSError as error:
            self._lose(worker, f"cannot be reached: {error.strerror}")
        self.dispatch()

    def _take(self, worker: WorkerProcess, kind: int, body: bytes) -> None:
        if kind == Kind.ANSWER:
            self._settle(worker, read_answer(body))
        elif kind == Kind.LOG and worker.lines < _MAX_LINES:
            worker.lines += 1
            number, level, line = read_log(body)
            if stage := self._stages.get(number):
                stage.log.write(level, line)
        elif kind == Kind.READY and worker not in self.ready and not worker.handed:
            self.missing = read_ready(body)
            self.ready.append(worker)
            for stage in islice(self._stages.values(), _PRELOADED):
                self.load(worker, stage)
            self._on_change()
        else:
            raise BrokenMessage(f"message {kind} is not due")

    def _settle(self, worker: WorkerProcess, answer: Answer) -> None:
        """Take the answer of the first call that a worker has."""
        call = worker.handed[0] if worker.handed else None
        if call is None or answer.number != call.number or (call.trial and answer.outputs):
            raise BrokenMessage("it answers what it was not asked")
        taking = None if call.trial or answer.error else Taking(worker, call, answer)
        slow = taking is not None and taking.is_long
        outcome: SandsealError | tuple[Tensor, ...] = answer.error or ()
        if taking is not None and not slow:
            _exhaust(taking.steps)
            outcome = taking.outputs()
        now = time.monotonic()
        if not call.trial:
            call.stage.count(answer, now - worker.since)
        if call.stay is not None:
            call.stay.nbytes = min(answer.memory_bytes, call.stage.memory_limit)
        worker.handed.popleft()
        worker.since, worker.allowance_s = now, 0.0
        self.done += 1
        if slow and taking is not None:
            self._go_on(self._settle_slowly(taking))
        else:
            worker.release(call, answer)
            call.settle(outcome)

    async def _settle_slowly(self, taking: Taking) -> None:
        """Take large outputs, with turns for others in between."""
        worker, call = taking.worker, taking.call
        try:
            if await _exhaust_slowly(worker, taking.steps):
                call.settle(await asyncio.to_thread(taking.outputs))
                if not worker.lost.done():
                    worker.release(call, taking.answer)
                self.dispatch()
                return
        except BrokenMessage as error:
            _count_loss(call)
            self._lose(worker, f"makes no sense: {error}")
        self._try_again(call)

    def _watch(self) -> None:
        """Lose the workers that hang."""
        self._watching = None
        for worker in self.ready.copy():
            worker.lines = 0
            if _hangs(worker):
                self._read(worker)  # it may be this loop that was held up
            if _hangs(worker):
                self._end_hang(worker)
        if any(worker.handed for worker in self.ready):
            self._watching = self._loop.call_later(_WATCH_S, self._watch)

    def _end_hang(self, worker: WorkerProcess) -> None:
        """Lose a worker whose call has had its time, so that it is not tried again."""
        call = worker.handed.popleft()
        stage, error = call.stage, _hung(call.stage)
        stage.tally.lose()
        stage.tally.add(error, cpu_s=0.0, wall_s=stage.limit_s, memory_bytes=0)
        call.settle(error)
        self._lose(worker, f"hung in plugin {stage.label!r}")

    @contextmanager
    def _lost_if_unreachable(self, worker: WorkerProcess) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._lose(worker, f"cannot be reached: {error.strerror}")

    def _lose(self, worker: WorkerProcess, why: str) -> None:
        """Give up a worker; the calls that it has go to others."""
        if worker.lost.done():
            return
        worker.lost.set_result(why)
        worker.kill()
        if worker in self.ready:
            self.ready.remove(worker)
            self._on_change()
        for turn, call in enumerate(worker.handed):
            if turn == 0:
                _count_loss(call)
            self._try_again(call)
        for call in worker.waiting:
            self._try_again(call)
        worker.handed.clear()
        worker.waiting.clear()

    def _try_again(self, call: Call) -> None:
        call.slot, call.worker = -1, None
        if call.answer.done():
            return
        label = call.stage.label
        if call.stay is not None:
            error = PluginLost(f"plugin {label!r} was lost with the worker process of its stream", plugin=label)
        elif call.losses <= RETRIES:
            self._queue.add(call)
            return
        else:
            error = PluginLost(f"plugin {label!r} was lost with its worker process {call.losses} times", plugin=label)
        call.stage.tally.add(error, cpu_s=0.0, wall_s=0.0, memory_bytes=0)
        call.settle(error)


def _exhaust(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


async def _exhaust_slowly(worker: WorkerProcess, steps: Iterator[None]) -> bool:
    """Take all steps, with turns for others in between; whether the worker, and so its region, was there all along."""
    while not worker.lost.done():
        if next(steps, _END) is _END:
            return True
        await asyncio.sleep(0)
    return False


def _count_loss(call: Call) -> None:
    """A call was lost with its worker; those behind it were not to blame."""
    call.losses += 1
    call.stage.tally.lose()


def _hangs(worker: WorkerProcess) -> bool:
    if not worker.handed:
        return False
    return time.monotonic() - worker.since > worker.handed[0].stage.limit_s + GRACE_S + worker.allowance_s


def _hung(stage: Stage) -> PluginTimeout:
    return PluginTimeout(
        f"plugin {stage.label!r} did not end within {stage.limit_s * 1000:.0f} ms, nor could its worker end it",
        plugin=stage.label, function=stage.form.spec.function, trap="interrupt", frames=[],
    )  # fmt: skip
