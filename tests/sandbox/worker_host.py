"""Sandbox workers on an event loop of a thread of its own, so that tests can call them from any thread."""

import asyncio
import contextlib
import math
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from sandbox.guests import guest, stage_spec
from sandseal_host.sandbox import SandboxEngine, WorkerPlugin, Workers, WorkerStage
from sandseal_host.tensors import Tensor
from sandseal_signing.stage import StageSpec


class WorkerHost:
    def __init__(self, engine: SandboxEngine, count: int = 2, **options: Any) -> None:
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop")
        self._thread.start()
        try:
            self.workers = self.run(self._start(count, options))
        except BaseException:
            self._stop()
            raise

    async def _start(self, count: int, options: Any) -> Workers:
        workers = Workers(count, **options)
        await workers.start()
        return workers

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def stage(
        self, wasm: bytes | None = None, spec: StageSpec | None = None, *, label: str = "p", **options: Any
    ) -> WorkerStage:
        wasm = wasm or guest()
        plugin = WorkerPlugin(label, spec or stage_spec(), wasm, self._engine.code(wasm, label), {})
        return WorkerStage(self.workers, plugin, **options)

    def submit(
        self, stage: WorkerStage, *inputs: Tensor, urgency: float = 0, deadline: float = math.inf
    ) -> "Future[tuple[Tensor, ...]]":
        return asyncio.run_coroutine_threadsafe(stage.apply(inputs, b"{}", urgency, deadline), self._loop)

    def call(self, stage: WorkerStage, *inputs: Tensor, **options: Any) -> tuple[Tensor, ...]:
        return self.submit(stage, *inputs, **options).result(60)

    def close(self) -> None:
        self.workers.close()
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> "WorkerHost":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def worker_pids(parent: int | str = "self") -> set[int]:
    """Sandbox workers that a process, by default this one, has started and that have not ended."""
    found = set()
    for task in Path(f"/proc/{parent}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            for pid in (task / "children").read_text().split():
                status, command = Path(f"/proc/{pid}/stat"), Path(f"/proc/{pid}/cmdline")
                if b"worker" in command.read_bytes() and status.read_text().rpartition(")")[2].split()[0] != "Z":
                    found.add(int(pid))
    return found


def twisted(folder: Path, code: str) -> tuple[str, ...]:
    """A command that starts workers in which `code` has changed the module `worker`."""
    script = folder / "twisted_worker.py"
    script.write_text(f"import sandseal_host.sandbox.workers.worker as worker\n{code}\nworker.main()\n")
    return (sys.executable, "-P", "-B", str(script))
