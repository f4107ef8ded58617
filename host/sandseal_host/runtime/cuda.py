"""NVIDIA GPUs as devices: torch gives pinned memory, streams and figures, ONNX Runtime's CUDA provider runs.

No test runs this module without a GPU: `make gpu-check` does with one. All that could be written without CUDA is
elsewhere, and is run on the CPU by a `Staging` of the tests.
"""

import threading
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import onnxruntime
from onnxruntime.capi import _pybind_state as ort

from sandseal_host.errors import DeviceUnavailable
from sandseal_host.runtime import driver
from sandseal_host.runtime.affinity import cores_near
from sandseal_host.runtime.gate import Gate
from sandseal_host.runtime.graphed_binding import GraphedBinding
from sandseal_host.runtime.memory import DeviceMemory, trim
from sandseal_host.runtime.staged_binding import StagedBinding
from sandseal_host.runtime.staging import Bytes, Event, Staging, Stream
from sandseal_signing.manifest import ModelSpec

_PCI = Path("/sys/bus/pci/devices")
_INSTALL = "pip uninstall onnxruntime, then pip install 'sandseal[gpu]'; or set SANDSEAL_DEVICE=cpu"


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
        """See `Stream.download`; the target is pinned, and may be larger than what is copied."""
        driver.copy_out(target.ctypes.data, source, target.nbytes, self.pointer)

    def record(self) -> "CudaEvent":
        """See `Stream.record`."""
        event = _torch().cuda.Event(blocking=True)  # who waits sleeps: no core spins
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
        self._device = _torch().device("cuda", index)
        self.compute: Stream = self.stream()
        self.launching = threading.Lock()
        self.gate = _gate(index)
        self.graph_ids: Iterator[int] = count(1)  # 0 is what ONNX Runtime takes where it is told nothing
        self.ort_device = ort.OrtDevice(ort.OrtDevice.cuda(), ort.OrtDevice.default_memory(), index)

    def stream(self) -> CudaStream:
        """See `Staging.stream`."""
        return CudaStream(_torch().cuda.Stream(self._device))

    def enter(self) -> None:
        """See `Staging.enter`."""
        _torch().cuda.set_device(self._device)

    def host(self, size: int) -> Bytes:
        """See `Staging.host`; torch keeps what was freed for the next one."""
        torch = _torch()
        memory: Bytes = torch.empty(size, dtype=torch.uint8, pin_memory=size > 0).numpy()
        return memory

    def memory(self, size: int) -> CudaBuffer:
        """See `Staging.memory`."""
        torch = _torch()
        tensor = torch.zeros(size, dtype=torch.uint8, device=self._device)
        torch.cuda.current_stream(self._device).synchronize()  # zeros first, then what other streams bring
        return CudaBuffer(tensor)


class Cuda:
    """The GPUs that the driver shows this process."""

    provider = "CUDAExecutionProvider"
    arena = "gpu"
    runs_at_once = 2  # the rows of one batch are copied while another's are computed

    def count(self) -> int:
        """How many there are; see `driver.device_count`."""
        return driver.device_count()

    def check(self, index: int) -> None:
        """See that the build, the driver, the libraries and the device are there.

        Raises:
            DeviceUnavailable: the message says which is missing.
        """
        if self.provider not in onnxruntime.get_available_providers():
            raise DeviceUnavailable("the installed ONNX Runtime is the CPU build", hint=_INSTALL)
        count = self.count()
        if index >= count:
            raise DeviceUnavailable(f"there is no cuda:{index}: the driver shows {count} CUDA devices", devices=count)
        torch = _torch()
        if not torch.cuda.is_available():
            raise DeviceUnavailable(f"torch {torch.__version__} does not find the GPU", hint=_INSTALL)
        onnxruntime.preload_dlls()  # CUDA and cuDNN out of the nvidia-* wheels

    def provider_options(self, index: int, staging: Staging | None, *, graphs: bool) -> dict[str, Any]:
        """ONNX Runtime's, for one session."""
        assert staging is not None  # noqa: S101  # `staging` below made it
        return {
            "device_id": index,
            "user_compute_stream": str(staging.compute.pointer),
            "arena_extend_strategy": "kSameAsRequested",  # the arena never shrinks by itself (onnxruntime#9509)
            "cudnn_conv_algo_search": "HEURISTIC",  # EXHAUSTIVE costs 0.6 s per new shape (onnxruntime#19838)
            "enable_cuda_graph": str(int(graphs)),
        }

    def session_options(self) -> dict[str, str]:
        """Config entries: nothing runs elsewhere, and weights lie outside the arena, which can then shrink."""
        return {
            "session.disable_cpu_ep_fallback": "1",
            "session.use_device_allocator_for_initializers": "1",
        }

    def run_options(self) -> onnxruntime.RunOptions:
        """Those of one run: it returns when its work is on the stream."""
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return options

    def memory(self, index: int) -> DeviceMemory:
        """The device's; what other processes hold counts too."""
        free, total = _torch().cuda.mem_get_info(index)
        return DeviceMemory(total, free)

    def used(self, index: int) -> int:
        """Bytes by which loading something can be measured: the device's."""
        memory = self.memory(index)
        return memory.total - memory.free

    def cores(self, index: int) -> frozenset[int]:
        """The processors next to the device; none where the system does not say."""
        return cores_near(_PCI / driver.bus_id(index))

    def staging(self, index: int) -> Staging | None:
        """Streams for one session."""
        return CudaStaging(index)

    def binding(
        self, session: onnxruntime.InferenceSession, spec: ModelSpec, staging: Staging | None, graph_rows: int
    ) -> StagedBinding | GraphedBinding:
        """What runs one batch at a time; with graphs for up to so many rows, if any."""
        assert staging is not None  # noqa: S101  # `staging` above made it
        if graph_rows:
            return GraphedBinding(session, spec, staging, graph_rows)
        return StagedBinding(session, spec, staging, self.run_options())

    def release(self, index: int) -> None:
        """Hand memory that was freed back to the driver and the system; torch keeps it else."""
        torch = _torch()
        torch.cuda.empty_cache()
        if (empty := getattr(torch._C, "_host_emptyCache", None)) is not None:
            empty()
        trim()


@cache
def _gate(index: int) -> Gate:
    """One a device."""
    return Gate()


def _torch() -> Any:
    """Imported when a GPU is used, since it takes seconds and most machines do without it.

    Raises:
        DeviceUnavailable: it is missing.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise DeviceUnavailable("torch is missing", hint="pip install 'sandseal[gpu]'") from None
    return torch
