"""What serving and runtime cost per request, without HTTP: a tiny MLP, callers on one event loop.

python tests/serving/bench_lane.py        (taskset -c 1 ... for one core)
"""

import asyncio
import itertools
import sys
import time
from pathlib import Path

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from sandseal_host.runtime.device import Device
from sandseal_host.runtime.session import Session
from sandseal_host.serving.lane import INLINE_BELOW_S, Lane
from sandseal_host.serving.request import STANDARD, Request
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support import onnx_models

REQUESTS, ROUNDS = 16_000, 5
MODES = {"on the loop": float("inf"), "on threads": 0.0, "as measured": INLINE_BELOW_S}


async def cost(callers: int, inline_below_s: float) -> tuple[float, float, float]:
    """Best wall and processor microseconds per request, and rows per batch."""
    model = onnx_models.mlp()
    session = Session.open(model.files, Device.parse("cpu"))
    lane = Lane(session, SchedulerSettings(max_rows=session.max_rows), inline_below_s=inline_below_s)
    x = np.ones((1, 128), np.float32)
    inputs, numbers = (Tensor("x", DataType.FP32, x.shape, x),), itertools.count()

    async def caller() -> None:
        for _ in range(REQUESTS // callers):
            now = time.monotonic()
            await lane.run(Request(next(numbers), inputs, 1, STANDARD, "tenant", now, float("inf")))

    rounds = []
    for _ in range(ROUNDS):
        wall, processor = time.perf_counter(), time.process_time()
        await asyncio.gather(*(caller() for _ in range(callers)))
        spent = time.perf_counter() - wall, time.process_time() - processor
        rounds.append([seconds * 1e6 / REQUESTS for seconds in spent])
    statistics = lane.statistics()
    await lane.close()
    session.close()
    rows = statistics.scheduler.batch_rows_sum / (statistics.inline + statistics.threaded)
    return min(w for w, _ in rounds), min(p for _, p in rounds), rows


for callers, (mode, below) in itertools.product((1, 32), MODES.items()):
    wall, processor, rows = uvloop.run(cost(callers, below))
    print(f"{callers:3} callers, {mode:12} {wall:7.1f} us wall {processor:7.1f} us cpu {rows:5.1f} rows a batch")
