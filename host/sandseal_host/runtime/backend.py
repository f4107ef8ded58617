"""What a kind of device has to offer: all that is different between the CPU and a GPU."""

from typing import Any, Protocol

import onnxruntime

from sandseal_host.runtime.binding import Binding
from sandseal_host.runtime.graphed_binding import GraphedBinding
from sandseal_host.runtime.memory import DeviceMemory
from sandseal_host.runtime.staged_binding import StagedBinding
from sandseal_host.runtime.staging import Staging
from sandseal_signing.manifest import ModelSpec


class Backend(Protocol):
    """One kind of device; `index` says which of them."""

    provider: str
    """ONNX Runtime's execution provider."""

    arena: str
    """What ONNX Runtime's arena shrinkage calls it."""

    runs_at_once: int
    """Runs of one session that keep a device busy."""

    def count(self) -> int:
        """How many there are; raises DeviceUnavailable where that cannot be known."""
        ...

    def check(self, index: int) -> None:
        """See that sessions can be made there; raises DeviceUnavailable with what is missing."""
        ...

    def provider_options(self, index: int, staging: Staging | None, *, graphs: bool) -> dict[str, Any]:
        """The provider's options for one session."""
        ...

    def session_options(self) -> dict[str, str]:
        """Config entries of every session."""
        ...

    def run_options(self) -> onnxruntime.RunOptions:
        """Those of one run."""
        ...

    def memory(self, index: int) -> DeviceMemory:
        """The device's memory now."""
        ...

    def used(self, index: int) -> int:
        """Bytes in use, by whose growth what was loaded meanwhile is measured."""
        ...

    def cores(self, index: int) -> frozenset[int]:
        """The processors next to it; none where all are alike."""
        ...

    def staging(self, index: int) -> Staging | None:
        """What a session needs to bring tensors there; None where they are there already."""
        ...

    def binding(
        self, session: onnxruntime.InferenceSession, spec: ModelSpec, staging: Staging | None, graph_rows: int
    ) -> Binding | StagedBinding | GraphedBinding:
        """What runs one batch at a time; with graphs for up to so many rows, where not 0."""
        ...

    def release(self, index: int) -> None:
        """Hand memory that was freed back to the system."""
        ...
