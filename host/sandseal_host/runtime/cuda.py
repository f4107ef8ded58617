"""NVIDIA GPUs as devices: torch gives pinned memory, streams and figures, ONNX Runtime's CUDA provider runs.

No test runs this module without a GPU: `make gpu-check` does with one. All that could be written without CUDA is
elsewhere, and is run on the CPU by a `Staging` of the tests.
"""

from pathlib import Path
from typing import Any

import onnxruntime

from sandseal_host.errors import DeviceUnavailable
from sandseal_host.runtime import driver, placement
from sandseal_host.runtime.affinity import cores_near
from sandseal_host.runtime.cuda_staging import CudaStaging, import_torch
from sandseal_host.runtime.graphed_binding import GraphedBinding
from sandseal_host.runtime.memory import DeviceMemory, trim
from sandseal_host.runtime.staged_binding import StagedBinding
from sandseal_host.runtime.staging import Staging
from sandseal_signing.manifest import ModelSpec

_PCI = Path("/sys/bus/pci/devices")
_INSTALL = "pip uninstall onnxruntime, then pip install 'sandseal[gpu]'; or set SANDSEAL_DEVICE=cpu"


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
        torch = import_torch()
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
        """Config entries: where nodes run is told, and weights lie outside the arena, which can then shrink."""
        return {placement.RECORD: "1", "session.use_device_allocator_for_initializers": "1"}

    def run_options(self) -> onnxruntime.RunOptions:
        """Those of one run: it returns when its work is on the stream."""
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return options

    def memory(self, index: int) -> DeviceMemory:
        """The device's; what other processes hold counts too."""
        free, total = import_torch().cuda.mem_get_info(index)
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
        torch = import_torch()
        torch.cuda.empty_cache()
        if (empty := getattr(torch._C, "_host_emptyCache", None)) is not None:
            empty()
        trim()
