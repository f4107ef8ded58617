"""What the interpreter's switch interval costs: runs on a lane's thread beside an event loop that is busy with Python.

python tests/observe/measure_switch.py        prints a line per interval; `observe/tail.py` has the one chosen
"""

import asyncio
import itertools
import sys
import threading
import time
from pathlib import Path
from statistics import median, quantiles

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from sandseal_host.runtime.device import Device
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support import onnx_models

INTERVALS_S = (5e-3, 1e-3, 500e-6, 200e-6, 100e-6, 50e-6)
ROUNDS, SECONDS = 12, 0.2


async def _spin(thread: threading.Thread, until: float) -> int:
    """Turns of the loop, each about a millisecond of Python, as settling a large batch is."""
    turns = 0
    thread.start()
    while time.monotonic() < until:
        sum(i for i in range(15_000))
        turns += 1
        await asyncio.sleep(0)
    return turns


def _runs(session: Session, until: float, took: list[float]) -> None:
    x = np.ones((1, 256), np.float32)
    inputs = (Tensor("x", DataType.FP32, x.shape, x),)
    while (began := time.monotonic()) < until:
        session.run([inputs])
        took.append(time.monotonic() - began)


def _measure(session: Session) -> tuple[float, float, float]:
    """Turns a second of the busy loop, and the median and p99 (ms) of a run on the thread."""
    until, took = time.monotonic() + SECONDS, list[float]()
    thread = threading.Thread(target=_runs, args=(session, until, took))
    turns = asyncio.run(_spin(thread, until))
    thread.join()
    return turns / SECONDS, median(took) * 1e3, quantiles(took, n=100)[98] * 1e3


model = onnx_models.mlp((256, 1024, 1024, 1024, 10))  # about half a millisecond
found: dict[float, list[tuple[float, float, float]]] = {interval: [] for interval in INTERVALS_S}
with Session.open(model.files, Device.parse("cpu")) as session:
    for _, interval in itertools.product(range(ROUNDS), INTERVALS_S):
        sys.setswitchinterval(interval)
        found[interval].append(_measure(session))
for interval, rounds in found.items():
    rate, middle, tail = (median(values) for values in zip(*rounds, strict=True))
    print(f"{interval * 1e6:6.0f} us: loop {rate:6.0f} turns/s, run p50 {middle:6.2f} ms, p99 {tail:6.2f} ms")
