"""What it costs to have a plugin run in a sandbox worker, with an idle event loop and with one that has no rest."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from statistics import median

import numpy as np

from bench.figure import Figure, Measure, interleave
from sandbox.guests import floats, guest, stage_spec
from sandseal_host.sandbox import SandboxEngine, StagePool, WorkerPlugin, Workers, WorkerStage
from sandseal_host.tensors import Tensor
from sandseal_sdk.build import build_plugin
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_signing.stage import StageSpec

ROOT = Path(__file__).resolve().parents[2]
ROUNDS, CALLS = 3, 300
BUSY_TASKS, BUSY_S = 8, 60e-6  # so many small requests are always due, each for that long on the loop

Work = tuple[bytes, StageSpec, tuple[Tensor, ...]]
Apply = Callable[[], Awaitable[object]]
Side = Callable[[Work], AbstractAsyncContextManager[Apply]]


@asynccontextmanager
async def _inline(work: Work) -> AsyncIterator[Apply]:
    """A call in this thread."""
    wasm, spec, inputs = work
    with SandboxEngine() as engine, engine.compile(wasm, spec) as plugin:

        async def apply() -> object:
            return plugin.call(inputs)

        yield apply


@asynccontextmanager
async def _threads(work: Work) -> AsyncIterator[Apply]:
    """A call on a thread of this process."""
    wasm, spec, inputs = work
    with SandboxEngine() as engine:
        pool = StagePool(engine.compile(wasm, spec), 2)
        yield lambda: pool.apply(inputs, b"{}", 0, math.inf)
        await asyncio.to_thread(pool.close)


@asynccontextmanager
async def _workers(work: Work) -> AsyncIterator[Apply]:
    """A call in a worker process."""
    wasm, spec, inputs = work
    with SandboxEngine(pooling=False) as engine:
        plugin = WorkerPlugin("p", spec, wasm, engine.code(wasm, "p"), {})
    workers = Workers(2)
    await workers.start()
    stage = await asyncio.to_thread(WorkerStage, workers, plugin)
    yield lambda: stage.apply(inputs, b"{}", 0, math.inf)
    for used in (stage, workers):
        await asyncio.to_thread(used.close)


def _micros(side: Side, work: Work, *, busy: bool = False) -> float:
    """Microseconds of a call at the median, on the event loop that hosts use."""
    try:
        from uvloop import new_event_loop
    except ModuleNotFoundError:
        new_event_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_measure(side, work, busy=busy))


async def _measure(side: Side, work: Work, *, busy: bool) -> float:
    async with side(work) as apply:
        load = [asyncio.create_task(_keep_busy()) for _ in range(BUSY_TASKS * busy)]
        took = []
        for _ in range(CALLS):
            began = time.perf_counter()
            await apply()
            took.append((time.perf_counter() - began) * 1e6)
        for task in load:
            task.cancel()
        return median(took)


async def _keep_busy() -> None:
    while True:
        until = time.perf_counter() + BUSY_S
        while time.perf_counter() < until:
            pass
        await asyncio.sleep(0)


def _normalise() -> Work:
    folder = ROOT / "plugins" / "image-normalise"
    spec, wasm = read_plugin_spec(folder).stage, build_plugin(folder).wasm.read_bytes()
    image = np.random.default_rng(3).integers(0, 256, (224, 224, 3), np.uint8)
    return wasm, spec, (Tensor("image", spec.inputs[0].dtype, image.shape, image),)


def hand_over() -> Iterator[Figure]:
    """A small call in a worker against the same call in this thread, while nothing else happens."""
    work = guest(), stage_spec(), (floats(*range(64)),)
    sides = (_inline, _threads, _workers)
    inline, threads, worker = interleave(ROUNDS, *(lambda side=side: _micros(side, work) for side in sides))
    detail = f"{worker:.0f} us, {inline:.0f} in this thread, {threads:.0f} on another"
    yield Figure("hand-over to a worker and back", worker - inline, "us", 500, False, detail)


def saturated() -> Iterator[Figure]:
    """The 224x224 normalise while the event loop always has more to do."""
    work = _normalise()
    idle, busy, threads = interleave(
        ROUNDS,
        lambda: _micros(_workers, work),
        lambda: _micros(_workers, work, busy=True),
        lambda: _micros(_threads, work, busy=True),
    )
    detail = f"{idle / 1e3:.2f} ms with an idle loop; saturated on threads {threads / 1e3:.2f} ms"
    yield Figure("224x224 normalise, loop saturated", busy / 1e3, "ms", 1.5, False, detail)


MEASURES = (
    Measure("hand-over to workers", hand_over),
    Measure("saturated event loop", saturated),
)
