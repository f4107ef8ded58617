"""What keeps a number of worker processes alive: it starts them, and replaces those that end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sandseal_host.sandbox.workers.process import WorkerProcess

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
_CALM_S = 30.0

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class Backoff:
    """How long to wait before something that ended is started again: not at all at first, then longer each time."""

    def __init__(self) -> None:
        self._last, self._wait_s = -_CALM_S, 0.0

    def next(self, now: float) -> float:
        """Seconds to wait after an end at `now`, on the monotonic clock; 30 calm seconds make it the first again."""
        calm, self._last = now - self._last >= _CALM_S, now
        wait_s = 0.0 if calm else self._wait_s
        self._wait_s = min(max(2 * wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S)
        return wait_s


class WorkerKeeper:
    """Keeps so many workers running, on an event loop; only starting and burying them happens on a thread.

    Args:
        count: how many.
        spawn: starts one; blocks.
        serve: lets one work, and says why it cannot any more.
        on_end: called when one has ended, or could not be started.
    """

    def __init__(
        self,
        count: int,
        spawn: Callable[[], WorkerProcess],
        serve: Callable[[WorkerProcess], Awaitable[str]],
        on_end: Callable[[], None],
    ) -> None:
        self._spawn, self._serve, self._on_end = spawn, serve, on_end
        self._backoff = Backoff()
        # One thread, which lives as long as the workers: each dies with the thread that started it.
        self._thread = ThreadPoolExecutor(1, "sandseal-spawner")
        self._unburied: set[WorkerProcess] = set()  # touched by the thread alone
        self._tasks = [asyncio.create_task(self._keep()) for _ in range(count)]
        self.restarts = 0
        self.last_end = ""

    async def close(self) -> None:
        """End all workers and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._on_thread(self._bury_all)
        self._thread.shutdown()

    async def _keep(self) -> None:
        while True:
            try:
                worker = await self._on_thread(self._start)
            except OSError as error:
                self.last_end = f"could not be started: {error.strerror}"
                _log.error("a sandbox worker %s", self.last_end)
            else:
                why = await self._serve(worker)
                how = await self._on_thread(self._bury, worker)
                self.last_end = f"{why}; it ended with {how}"
                _log.warning("sandbox worker %d %s", worker.pid, self.last_end)
            self.restarts += 1
            self._on_end()
            await asyncio.sleep(self._backoff.next(time.monotonic()))

    def _on_thread(self, work: Callable[..., _Result], *arguments: Any) -> Awaitable[_Result]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _start(self) -> WorkerProcess:
        worker = self._spawn()
        self._unburied.add(worker)
        return worker

    def _bury(self, worker: WorkerProcess) -> str:
        self._unburied.discard(worker)
        return worker.bury()

    def _bury_all(self) -> None:
        for worker in list(self._unburied):
            self._bury(worker)
