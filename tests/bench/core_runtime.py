"""The figures of *The GPU core* that are the runtime's: who owns outputs, and what loading a large model takes."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.capi import _pybind_state as ort

from bench import lanes, loading
from bench.figure import Figure, Measure, interleave
from support.onnx_models import identity

MB = 1e6
ROUNDS = 3
_HOST = ort.OrtDevice(ort.OrtDevice.cpu(), ort.OrtDevice.default_memory(), 0)


def outputs() -> Iterator[Figure]:
    """Outputs that ONNX Runtime allocates and their holders own, against buffers of our own that are used again.

    The second would need leases, so that nobody's bytes change while a slow client still reads them.
    """
    for width, count, goal in ((10, 2000, 5.0), (150_528, 100, 100.0)):
        with lanes.opened(identity()) as session:
            x = np.ones((8, width), np.float32)
            theirs, ours = interleave(
                9, _timed(_owned(session._core, x), count), _timed(_bound(session._core, x), count)
            )
        detail = f"{theirs:.1f} against {ours:.1f} us a run"
        yield Figure(f"owned - reused outputs, {x.nbytes / MB:.4g} MB", theirs - ours, "us", goal, False, detail)


def _owned(session: onnxruntime.InferenceSession, x: np.ndarray) -> Callable[[], Any]:
    core = session._sess
    io, pointer = ort.SessionIOBinding(core), x.ctypes.data

    def run() -> Any:
        io.bind_input("x", _HOST, 1, x.shape, pointer)
        io.bind_output("y", _HOST)
        core.run_with_iobinding(io, None)
        array = io.get_outputs()[0].numpy()
        io.clear_binding_outputs()
        return array

    return run


def _bound(session: onnxruntime.InferenceSession, x: np.ndarray) -> Callable[[], Any]:
    core, y = session._sess, np.empty_like(x)
    io, pointers = ort.SessionIOBinding(core), (x.ctypes.data, y.ctypes.data)

    def run() -> Any:
        io.bind_input("x", _HOST, 1, x.shape, pointers[0])
        io.bind_output("y", _HOST, 1, y.shape, pointers[1])
        core.run_with_iobinding(io, None)
        return y[:]

    return run


def _timed(run: Callable[[], Any], count: int) -> Callable[[], float]:
    def timed() -> float:
        began = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - began) / count * 1e6

    return timed


def load_modes() -> Iterator[Figure]:
    """A model of 600 MB with external weights, by each way to load it, each in a fresh process."""
    with TemporaryDirectory() as folder:
        weights = loading.write(Path(folder))
        size = weights.stat().st_size
        for mode, most in (("bytes", 3.2), ("path", 2.2)):
            name, warm = f"600 MB by {mode}", _loaded(mode, folder)
            detail = f"{warm['held'] / MB:.0f} MB held, {warm['left'] / MB:.0f} MB left after unload"
            yield Figure(f"{name}: peak memory", warm["peak"] / size, "x weights", most, False, detail)
            detail = "from the page cache, warm-up run included"
            yield Figure(f"{name}: load", warm["load_s"], "s", 10.0, False, detail)
            yield Figure(f"{name}: first answer", warm["answer_s"] * 1e3, "ms", 500.0, False, "after the load")
            yield _cold_load(name, mode, weights)


def _cold_load(name: str, mode: str, weights: Path) -> Figure:
    """A load from the disk, whose own speed stands beside it."""

    def load() -> float:
        loading.forget(weights)
        return float(_loaded(mode, str(weights.parent))["load_s"])

    def read() -> float:
        loading.forget(weights)
        began = time.perf_counter()
        with weights.open("rb", buffering=0) as file:
            while file.read(8 << 20):
                pass
        return time.perf_counter() - began

    ours, disk = interleave(ROUNDS, load, read)
    detail = f"not from the page cache; reading the file takes {disk:.2f} s"
    return Figure(f"{name}: cold load", ours, "s", 15.0, False, detail)


def _loaded(mode: str, folder: str) -> dict[str, float]:
    command = [sys.executable, loading.__file__, mode, folder]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


MEASURES = (Measure("outputs", outputs), Measure("load modes", load_modes))
