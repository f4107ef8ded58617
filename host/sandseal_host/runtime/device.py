"""Where models run: the CPU, or a CUDA device that the operator asked for. Never one instead of the other."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Self

import onnxruntime

from sandseal_host.errors import DeviceUnavailable, SettingsInvalid
from sandseal_host.runtime import placement
from sandseal_host.runtime.affinity import keep_thread_on
from sandseal_host.runtime.backend import Backend
from sandseal_host.runtime.cpu import Cpu
from sandseal_host.runtime.cuda import Cuda
from sandseal_host.runtime.memory import DeviceMemory
from sandseal_host.runtime.staging import Staging

_NAME = re.compile(r"cpu|cuda(?::(\d{1,3}))?")
_WHEELS = frozenset({"onnxruntime", "onnxruntime-gpu"})


class DeviceKind(StrEnum):
    """What sort of device."""

    CPU = "cpu"
    CUDA = "cuda"


_BACKENDS: dict[DeviceKind, Backend] = {DeviceKind.CPU: Cpu(), DeviceKind.CUDA: Cuda()}


@dataclass(frozen=True, slots=True)
class Device:
    """A device by kind and index."""

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

    @property
    def backend(self) -> Backend:
        """What all devices of this kind share."""
        return _BACKENDS[self.kind]

    def check(self) -> None:
        """See that sessions can be made here.

        Raises:
            SettingsInvalid: both builds of ONNX Runtime are installed, which share one folder.
            DeviceUnavailable: the build, the driver or the device is missing; the message says which.
        """
        check_wheels(frozenset(filter(_installed, _WHEELS)))
        self.backend.check(self.index)

    def available(self) -> bool:
        """Whether `check` passes."""
        try:
            self.check()
        except (SettingsInvalid, DeviceUnavailable):
            return False
        return True

    def staging(self) -> Staging | None:
        """What a session needs to bring tensors here; None where they are here already."""
        return self.backend.staging(self.index)

    def providers(self, staging: Staging | None, *, graphs: bool = False) -> list[tuple[str, dict[str, Any]]]:
        """ONNX Runtime's execution provider for a session on this device, with its options."""
        return [(self.backend.provider, self.backend.provider_options(self.index, staging, graphs=graphs))]

    def configure(self, options: onnxruntime.SessionOptions) -> None:
        """Set what sessions on this device need."""
        for name, value in self.backend.session_options().items():
            options.add_session_config_entry(name, value)

    def check_session(self, session: onnxruntime.InferenceSession) -> None:
        """See that a session really runs on this device: ONNX Runtime falls back to the CPU with a log line.

        Raises:
            DeviceUnavailable: it does not, or some of its nodes do not; the message names their operators.
        """
        if self.backend.provider not in session.get_providers():
            raise DeviceUnavailable(f"ONNX Runtime made the session on {session.get_providers()} instead of {self}")
        if placement.RECORD in self.backend.session_options():
            others = placement.misplaced(session.get_provider_graph_assignment_info(), self.backend.provider)
            if others:
                names = ", ".join(sorted(others))
                raise DeviceUnavailable(
                    f"ONNX Runtime has no way to run {names} on {self}, and would run them on the CPU",
                    hint="use operators and data types that the CUDA provider has, or SANDSEAL_DEVICE=cpu",
                    operators=dict(others),
                )

    def memory(self) -> DeviceMemory:
        """Its memory now."""
        return self.backend.memory(self.index)

    def used(self) -> int:
        """Bytes in use, by whose growth the memory of what was loaded meanwhile is measured."""
        return self.backend.used(self.index)

    def release(self) -> None:
        """Hand memory that was freed back to the system."""
        self.backend.release(self.index)

    def settle(self) -> None:
        """Keep the calling thread on the processors next to the device, where it has any of its own."""
        keep_thread_on(_cores(self))

    def __str__(self) -> str:
        return "cpu" if self.kind is DeviceKind.CPU else f"cuda:{self.index}"


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


@cache
def _cores(device: Device) -> frozenset[int]:
    return device.backend.cores(device.index)
