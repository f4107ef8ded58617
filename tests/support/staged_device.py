"""A device with memory of its own, on the CPU: what a GPU asks of the runtime, without one.

Its streams are threads, its memory is NumPy's; ONNX Runtime's CPU provider computes in it. Whoever forgets to wait, or
to keep memory while it is copied, reads what was there before.
"""

import ctypes
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

import numpy as np
from onnxruntime.capi import _pybind_state as ort

from sandseal_host.runtime.cpu import Cpu
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.gate import Gate
from sandseal_host.runtime.graphed_binding import GraphedBinding
from sandseal_host.runtime.memory import DeviceMemory
from sandseal_host.runtime.staged_binding import StagedBinding


class Point:
    """An event."""

    def __init__(self, future: "Future[None]") -> None:
        self._future = future

    def wait(self) -> None:
        self._future.result()


class CopyStream:
    """Copies one after another, on a thread; notes when each was done.

    Args:
        seconds: that a copy takes.
        done: of all the staging's streams: what was copied, and when.
    """

    pointer = 0

    def __init__(self, seconds: float, done: list[tuple[str, float]]) -> None:
        self._thread, self._seconds, self._done = ThreadPoolExecutor(1), seconds, done

    def upload(self, target: int, source: np.ndarray) -> None:
        self._thread.submit(self._copy, "upload", target, source.ctypes.data, source.nbytes)

    def download(self, target: np.ndarray, source: int) -> None:
        self._thread.submit(self._copy, "download", target.ctypes.data, source, target.nbytes)

    def move(self, target: int, source: int, size: int) -> None:
        self._thread.submit(self._copy, "move", target, source, size)

    def record(self) -> Point:
        return Point(self._thread.submit(lambda: None))

    def follow(self, event: Point) -> None:
        self._thread.submit(event.wait)

    def _copy(self, what: str, target: int, source: int, size: int) -> None:
        time.sleep(self._seconds)
        ctypes.memmove(target, source, size)
        self._done.append((what, time.monotonic()))


class ComputeStream:
    """ONNX Runtime computes at once, so what it follows is waited for."""

    pointer = 0

    def record(self) -> Point:
        future: Future[None] = Future()
        future.set_result(None)
        return Point(future)

    def follow(self, event: Point) -> None:
        event.wait()


class Memory:
    """Some bytes."""

    def __init__(self, size: int) -> None:
        self._bytes = np.zeros(size, np.uint8)
        self.pointer, self.nbytes = self._bytes.ctypes.data, size


class CpuStaging:
    """Streams and memory of one session."""

    def __init__(self, copy_s: float, done: list[tuple[str, float]]) -> None:
        self._copy_s, self._done = copy_s, done
        self.compute = ComputeStream()
        self.launching, self.gate, self.graph_ids = threading.Lock(), Gate(), count(1)
        self.ort_device = ort.OrtDevice(ort.OrtDevice.cpu(), ort.OrtDevice.default_memory(), 0)

    def stream(self) -> CopyStream:
        return CopyStream(self._copy_s, self._done)

    def enter(self) -> None:
        """Any thread may use it."""

    def host(self, size: int) -> np.ndarray:
        return np.full(size, 0xAA, np.uint8)

    def memory(self, size: int) -> Memory:
        return Memory(size)


class StagedCpu(Cpu):
    """A kind of device, several of which there are.

    Args:
        memories: of each.
        copy_s: seconds that a copy takes.
    """

    runs_at_once = 2

    def __init__(self, memories: tuple[DeviceMemory, ...] = (DeviceMemory(1 << 30, 1 << 30),), copy_s: float = 0.0):
        self.memories, self._copy_s = list(memories), copy_s
        self.done: list[tuple[str, float]] = []
        self.released: list[int] = []

    def count(self) -> int:
        return len(self.memories)

    def memory(self, index: int) -> DeviceMemory:
        return self.memories[index]

    def staging(self, index: int) -> CpuStaging:
        return CpuStaging(self._copy_s, self.done)

    def binding(self, session, spec, staging, graph_rows) -> StagedBinding | GraphedBinding:
        if graph_rows:
            return GraphedBinding(session, spec, staging, graph_rows)
        return StagedBinding(session, spec, staging, self.run_options())

    def release(self, index: int) -> None:
        self.released.append(index)
        super().release(index)


@dataclass(frozen=True)
class StagedDevice(Device):
    """One of them."""

    of: StagedCpu = None

    @property
    def backend(self) -> StagedCpu:
        return self.of


def staged(index: int = 0, backend: StagedCpu | None = None) -> StagedDevice:
    """A device of this backend; called cuda:INDEX."""
    return StagedDevice(DeviceKind.CUDA, index, backend or StagedCpu())
