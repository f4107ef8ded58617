"""A session's streams and memory on an NVIDIA GPU, by torch; see `Staging`."""

import threading
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

from onnxruntime.capi import _pybind_state as ort

from sandseal_host.errors import DeviceUnavailable
from sandseal_host.runtime import driver
from sandseal_host.runtime.gate import Gate
from sandseal_host.runtime.staging import Bytes, Event, Stream


class CudaStream:
    """A torch stream; copies on it go by address."""

    __slots__ = ("_stream", "pointer")

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.pointer: int = stream.cuda_stream

    def upload(self, target: int, source: Bytes) -> None:
        """See `Stream.upload`; the source is pinned."""
        driver.copy_in(target, source.ctypes.data, source.nbytes, self.pointer)

    def download(self, target: Bytes, source: int) -> None:
        """See `Stream.download`; the target is pinned."""
        driver.copy_out(target.ctypes.data, source, target.nbytes, self.pointer)

    def move(self, target: int, source: int, size: int) -> None:
        """See `Stream.move`."""
        driver.copy_within(target, source, size, self.pointer)

    def record(self) -> "CudaEvent":
        """See `Stream.record`."""
        event = import_torch().cuda.Event(blocking=True)  # who waits sleeps: no core spins
        event.record(self._stream)
        return CudaEvent(event)

    def follow(self, event: Event) -> None:
        """See `Stream.follow`."""
        assert isinstance(event, CudaEvent)  # noqa: S101  # both are of one staging
        self._stream.wait_event(event.event)


class CudaEvent:
    """A torch event."""

    __slots__ = ("event",)

    def __init__(self, event: Any) -> None:
        self.event = event

    def wait(self) -> None:
        """See `Event.wait`."""
        self.event.synchronize()


class CudaBuffer:
    """A torch tensor of bytes on a device."""

    __slots__ = ("_tensor", "nbytes", "pointer")

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.pointer: int = tensor.data_ptr()
        self.nbytes: int = tensor.numel()


class CudaStaging:
    """One session's streams on a GPU, and the memory on both sides."""

    def __init__(self, index: int) -> None:
        self._device = import_torch().device("cuda", index)
        self.compute: Stream = self.stream()
        self.launching = threading.Lock()
        self.gate = _gate(index)
        self.graph_ids: Iterator[int] = count(1)  # 0 is what ONNX Runtime takes where it is told nothing
        self.ort_device = ort.OrtDevice(ort.OrtDevice.cuda(), ort.OrtDevice.default_memory(), index)

    def stream(self) -> CudaStream:
        """See `Staging.stream`."""
        return CudaStream(import_torch().cuda.Stream(self._device))

    def enter(self) -> None:
        """See `Staging.enter`."""
        import_torch().cuda.set_device(self._device)

    def host(self, size: int) -> Bytes:
        """See `Staging.host`; torch keeps what was freed for the next one."""
        torch = import_torch()
        memory: Bytes = torch.empty(size, dtype=torch.uint8, pin_memory=size > 0).numpy()
        return memory

    def memory(self, size: int) -> CudaBuffer:
        """See `Staging.memory`."""
        torch = import_torch()
        tensor = torch.zeros(size, dtype=torch.uint8, device=self._device)
        torch.cuda.current_stream(self._device).synchronize()  # zeros first, then what other streams bring
        return CudaBuffer(tensor)


@cache
def _gate(index: int) -> Gate:
    """One a device."""
    return Gate()


def import_torch() -> Any:
    """Imported when a GPU is used, since it takes seconds and most machines do without it.

    Raises:
        DeviceUnavailable: it is missing.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise DeviceUnavailable("torch is missing", hint="pip install 'sandseal[gpu]'") from None
    return torch
