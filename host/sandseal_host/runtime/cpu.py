"""The CPU as a device."""

from typing import Any

import onnxruntime

from sandseal_host.runtime.binding import Binding
from sandseal_host.runtime.memory import DeviceMemory, resident_bytes, system_memory, trim
from sandseal_host.runtime.staging import Staging
from sandseal_signing.manifest import ModelSpec


class Cpu:
    """The machine's processors, all together one device, whose memory is the host's."""

    provider = "CPUExecutionProvider"
    arena = "cpu"
    runs_at_once = 1

    def count(self) -> int:
        """There is one."""
        return 1

    def check(self, index: int) -> None:
        """It is there."""

    def provider_options(self, index: int, staging: Staging | None, *, graphs: bool) -> dict[str, Any]:
        """None are needed."""
        return {}

    def session_options(self) -> dict[str, str]:
        """None are needed."""
        return {}

    def run_options(self) -> onnxruntime.RunOptions:
        """Those of one run."""
        return onnxruntime.RunOptions()

    def memory(self, index: int) -> DeviceMemory:
        """The system's, within what this process may have of it."""
        return system_memory()

    def used(self, index: int) -> int:
        """Bytes by which loading something can be measured: this process's."""
        return resident_bytes()

    def cores(self, index: int) -> frozenset[int]:
        """Any."""
        return frozenset()

    def staging(self, index: int) -> Staging | None:
        """None: there is nothing to copy."""
        return None

    def binding(
        self, session: onnxruntime.InferenceSession, spec: ModelSpec, staging: Staging | None, graph_rows: int
    ) -> Binding:
        """What runs one batch at a time."""
        return Binding(session, spec)

    def release(self, index: int) -> None:
        """Hand memory that was freed back to the system."""
        trim()
