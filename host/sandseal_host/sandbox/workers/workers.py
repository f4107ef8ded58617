"""The sandbox workers of a host: processes that all plugins share, and one queue in order of urgency.

What happens to a worker happens to the call that it runs, which is tried again on others, at most twice, and then
fails alone. All of this lives on the event loop.
"""

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from sandseal_host.errors import PluginInvalid, PluginOutOfMemory, SettingsInvalid, ShuttingDown
from sandseal_host.sandbox.abi import StageForm
from sandseal_host.sandbox.config import can_pool
from sandseal_host.sandbox.log import GuestLog, LogSink, to_logger
from sandseal_host.sandbox.program import ALLOC
from sandseal_host.sandbox.statistics import WorkerStatistics
from sandseal_host.sandbox.workers.call import Call, Stage, Stay
from sandseal_host.sandbox.workers.dispatch import Dispatcher
from sandseal_host.sandbox.workers.keeper import WorkerKeeper
from sandseal_host.sandbox.workers.plugin import WorkerPlugin
from sandseal_host.sandbox.workers.process import COMMAND, WorkerProcess
from sandseal_host.sandbox.workers.protocol import MAX_TENSORS
from sandseal_host.sandbox.workers.queue import CallQueue
from sandseal_host.sandbox.workers.region import SlotLayout
from sandseal_host.tensors import Tensor

START_S = 60.0  # within which a worker must be ready
OWN_MIB = 256  # of a worker's memory that is not for a guest
_FALSE_STARTS = 3  # after which a host that never had its workers gives up
_FIRST, _NEVER = -1.0, float("inf")

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class Workers:
    """Worker processes and the calls in front of them; what `WorkerStage` runs on. Made on the event loop.

    `working` says whether there is a worker that can be handed calls.

    Args:
        count: of processes.
        memory_mib: that each may use.
        log: gets what guests write; see `SandboxEngine`.
        on_change: told of `working` whenever it changes.
        command: see `WorkerProcess`.
    """

    def __init__(
        self,
        count: int,
        *,
        memory_mib: int = 1024,
        log: LogSink = to_logger,
        on_change: Callable[[bool], None] = lambda _: None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._count, self._memory_mib, self._log, self._command = count, memory_mib, log, command
        self._on_change = on_change
        self._numbers = itertools.count(1)
        self._stages: dict[int, Stage] = {}
        self._changed = asyncio.Event()
        self.working = self._closed = False
        self._loop = asyncio.get_running_loop()
        self._queue = CallQueue()
        self._dispatcher = Dispatcher(self._queue, self._stages, self._note, max(0, memory_mib - OWN_MIB) << 19)
        self._keeper: WorkerKeeper | None = None

    async def start(self) -> None:
        """Start all processes and wait until they are ready.

        Raises:
            SettingsInvalid: they end before, or take too long.
        """
        pooling = await asyncio.to_thread(can_pool)
        spawn = partial(WorkerProcess, self._memory_mib << 20, pooling=pooling, command=self._command)
        serve = partial(self._dispatcher.serve, start_s=START_S)
        self._keeper = keeper = WorkerKeeper(self._count, spawn, serve, self._changed.set)
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                while len(self._dispatcher.ready) < self._count and keeper.restarts < _FALSE_STARTS:
                    await self._changed.wait()
                    self._changed.clear()
        if len(self._dispatcher.ready) < self._count:
            await self._close()
            raise SettingsInvalid(
                f"the processes that run plugins do not start: {keeper.last_end or 'they take too long'}",
                hint="raise SANDSEAL_PLUGIN_MEMORY_MIB, or set SANDSEAL_PLUGIN_WORKERS=0 to run plugins on threads",
            )
        if self._dispatcher.missing:
            _log.warning("plugins run without %s here", ", ".join(self._dispatcher.missing))

    def open(self, plugin: WorkerPlugin, max_waiting: int) -> Stage:
        """Give workers a plugin and try it on one; blocks, so never on the event loop.

        Raises:
            PluginInvalid, PluginTrapped: as `SandboxEngine.compile` raises.
            PluginLost: it ended every worker that tried it.
            PluginOutOfMemory: its limit is larger than what a worker has to give.
            ShuttingDown: the workers are closed.
        """
        if max(len(plugin.spec.inputs), len(plugin.spec.outputs)) > MAX_TENSORS:
            raise PluginInvalid(f"plugin {plugin.label!r} has more than {MAX_TENSORS} tensors", plugin=plugin.label)
        limit, most = plugin.spec.limits.memory_mib, self._memory_mib - OWN_MIB
        if limit > most:
            raise PluginOutOfMemory(
                f"plugin {plugin.label!r} may have {limit} MiB, and a sandbox worker of this host has {most} to give",
                hint=f"lower limits.memory_mib, or let the operator set SANDSEAL_PLUGIN_MEMORY_MIB={limit + OWN_MIB}",
                plugin=plugin.label, function=ALLOC, trap="out_of_memory", frames=[],
                wanted=limit << 20, limit=most << 20,
            )  # fmt: skip
        form, log = StageForm(plugin.spec, plugin.label), GuestLog(plugin.label, self._log)
        stage = Stage(next(self._numbers), form, log, plugin.seal(), max_waiting)
        self._wait(self._open(stage))
        return stage

    def retire(self, stage: Stage) -> None:
        """Refuse what waits of a stage, let end what runs, and take the plugin from the workers; blocks."""
        if not self._loop.is_closed():
            self._wait(self._retire(stage))

    async def run(
        self, stage: Stage, inputs: tuple[Tensor, ...], parameters: bytes, urgency: float, deadline: float
    ) -> tuple[Tensor, ...]:
        """Run a stage on one request's tensors; see `WorkerStage.apply`."""
        # No name for the call or its answer: an error holds this frame, and they hold the error.
        return await self._answer(
            Call(
                urgency, next(self._numbers), stage, inputs, parameters, *stage.lay_out(inputs, parameters),
                deadline, self._loop.create_future(),
            )
        )  # fmt: skip

    async def run_stream(
        self, stage: Stage, stay: Stay, inputs: tuple[Tensor, ...], parameters: bytes, urgency: float, flags: int
    ) -> tuple[Tensor, ...]:
        """Call a stream's instance; see `WorkerStream.call`."""
        if stay.worker is None:
            self._dispatcher.seat(stay, stage)
        return await self._answer(
            Call(
                urgency, next(self._numbers), stage, inputs, parameters, *stage.lay_out(inputs, parameters),
                _NEVER, self._loop.create_future(), stay=stay, flags=flags,
            )
        )  # fmt: skip

    def new_stay(self, tenant: str) -> Stay:
        """For a new stream of a tenant, which has no instance yet."""
        return Stay(next(self._numbers), tenant)

    def statistics(self) -> WorkerStatistics:
        """The counts at this moment."""
        queue, dispatcher = self._queue, self._dispatcher
        return WorkerStatistics(
            workers=self._count,
            ready=len(dispatcher.ready),
            waiting=len(queue),
            handed=sum(len(worker.handed) for worker in dispatcher.ready),
            done=dispatcher.done,
            expired=queue.expired,
            cancelled=queue.cancelled,
            restarts=self._keeper.restarts if self._keeper else 0,
        )

    def close(self) -> None:
        """Refuse what waits and end the processes, whatever they do; blocks. Stages are retired before."""
        if self._keeper is not None and not self._loop.is_closed():
            self._wait(self._close())
        self._closed = True

    def _wait(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _note(self) -> None:
        """Tell whoever waits for workers, and whoever wants to know whether there are any."""
        self._changed.set()
        working = bool(self._dispatcher.ready)
        if working != self.working:
            self.working = working
            self._on_change(working)

    async def _close(self) -> None:
        self._closed, keeper = True, self._keeper
        self._keeper = None
        if keeper:
            await keeper.close()
        self._queue.refuse()

    async def _open(self, stage: Stage) -> None:
        self._stages[stage.number] = stage
        for worker in self._dispatcher.ready.copy():
            self._dispatcher.load(worker, stage)
        layout, answer = SlotLayout.of((), 0), self._loop.create_future()
        trial = Call(_FIRST, next(self._numbers), stage, (), b"", layout, {}, _NEVER, answer, trial=True)
        try:
            await self._answer(trial)
        except BaseException:
            self._forget(stage)
            raise

    async def _retire(self, stage: Stage) -> None:
        stage.closed = True
        self._queue.refuse(stage)
        for call in (call for worker in self._dispatcher.ready for call in worker.waiting if call.stage is stage):
            call.settle(ShuttingDown(f"plugin {stage.label!r} is being unloaded"))
        calls = (call for worker in self._dispatcher.ready for call in worker.handed)
        await asyncio.gather(*(call.answer for call in calls if call.stage is stage), return_exceptions=True)
        self._forget(stage)

    def _forget(self, stage: Stage) -> None:
        if self._stages.pop(stage.number, None):
            for worker in self._dispatcher.ready:
                worker.drop(stage.number)
            os.close(stage.file)

    async def _answer(self, call: Call) -> tuple[Tensor, ...]:
        if self._closed or call.stage.closed:
            raise ShuttingDown(f"plugin {call.stage.label!r} is being unloaded, or the workers have been closed")
        if call.stay is not None and call.stay.worker is not None:
            self._dispatcher.send(call, call.stay.worker)
        else:
            self._queue.admit(call)
            self._dispatcher.dispatch()
        try:
            return await call.answer
        except asyncio.CancelledError:
            self._dispatcher.abandon(call)
            raise
        finally:
            del call  # an error holds this frame; with the call in it, it would hold itself
