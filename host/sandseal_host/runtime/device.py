"""Where models run: the CPU, or a CUDA device that the operator asked for. Never one instead of the other."""

import ctypes
import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sandseal_host.errors import DeviceUnavailable, SettingsInvalid

_NAME = re.compile(r"cpu|cuda(?::(\d{1,3}))?")
_WHEELS = frozenset({"onnxruntime", "onnxruntime-gpu"})


class DeviceKind(StrEnum):
    """What sort of device."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True)
class Device:
    """A device by kind and index.

    The CUDA half is written to ONNX Runtime's documentation and to its behaviour without a device; no test here
    runs a model on one.
    """

    kind: DeviceKind
    index: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """The device that a setting names: `cpu`, `cuda` or `cuda:N`.

        Raises:
            SettingsInvalid: it is none of these.
        """
        match = _NAME.fullmatch(text)
        if match is None:
            raise SettingsInvalid(f"{text!r} is not a device", hint="use cpu, cuda or cuda:N", device=text)
        return cls(DeviceKind(text.partition(":")[0]), int(match[1] or 0))

    def check(self) -> None:
        """See that sessions can be made here.

        Raises:
            SettingsInvalid: both builds of ONNX Runtime are installed, which share one folder.
            DeviceUnavailable: the build, the driver or the device is missing; the message says which.
        """
        check_wheels(frozenset(filter(_installed, _WHEELS)))
        if self.kind is DeviceKind.CUDA:
            self._check_cuda()

    def available(self) -> bool:
        """Whether `check` passes."""
        try:
            self.check()
        except (SettingsInvalid, DeviceUnavailable):
            return False
        return True

    @property
    def providers(self) -> list[str | tuple[str, dict[str, Any]]]:
        """ONNX Runtime's execution providers for this device, with their options."""
        if self.kind is DeviceKind.CPU:
            return ["CPUExecutionProvider"]
        options = {
            "device_id": self.index,
            "arena_extend_strategy": "kSameAsRequested",  # the arena never shrinks by itself (onnxruntime#9509)
            "cudnn_conv_algo_search": "HEURISTIC",  # EXHAUSTIVE costs 0.6 s per new shape (onnxruntime#19838)
        }
        return [("CUDAExecutionProvider", options)]

    def configure(self, options: onnxruntime.SessionOptions) -> None:
        """Set what sessions on this device need, so that nothing of them runs elsewhere."""
        if self.kind is DeviceKind.CUDA:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")

    def check_session(self, session: onnxruntime.InferenceSession) -> None:
        """See that a session really is on this device: ONNX Runtime falls back to the CPU with a log line.

        Raises:
            DeviceUnavailable: it is not.
        """
        wanted = "CPUExecutionProvider" if self.kind is DeviceKind.CPU else "CUDAExecutionProvider"
        if wanted not in session.get_providers():
            raise DeviceUnavailable(f"ONNX Runtime made the session on {session.get_providers()} instead of {self}")

    def host_buffer(self, size: int) -> NDArray[np.uint8]:
        """Host memory from which this device reads its inputs; pinned memory will come from here for CUDA."""
        return np.empty(size, np.uint8)

    def __str__(self) -> str:
        return "cpu" if self.kind is DeviceKind.CPU else f"cuda:{self.index}"

    def _check_cuda(self) -> None:
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise DeviceUnavailable(
                "the installed ONNX Runtime is the CPU build",
                hint="pip uninstall onnxruntime, then pip install 'sandseal[gpu]'; or set SANDSEAL_DEVICE=cpu",
            )
        count = _cuda_devices()
        if self.index >= count:
            raise DeviceUnavailable(f"there is no {self}: the driver shows {count} CUDA devices", devices=count)
        if hasattr(onnxruntime, "preload_dlls"):
            onnxruntime.preload_dlls()  # CUDA and cuDNN out of the nvidia-* wheels


def check_wheels(installed: frozenset[str]) -> None:
    """See that not both builds of ONNX Runtime are among the installed distributions.

    Raises:
        SettingsInvalid: both are; whichever was installed last has overwritten the other's files.
    """
    if installed >= _WHEELS:
        raise SettingsInvalid(
            "onnxruntime and onnxruntime-gpu are both installed, and fill the same folder",
            hint="pip uninstall both, then pip install one of 'sandseal[cpu]' and 'sandseal[gpu]'",
        )


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _cuda_devices() -> int:
    """How many devices the CUDA driver shows.

    Raises:
        DeviceUnavailable: no driver, or it does not start.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DeviceUnavailable("libcuda.so.1 is missing: there is no NVIDIA driver here") from None
    count = ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        raise DeviceUnavailable(f"the CUDA driver does not start: error {status}", status=status)
    return count.value
