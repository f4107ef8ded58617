"""Graphs as ONNX Runtime has optimised them, kept for the next load of the same bundle.

The optimiser lays tensors out for the machine that it runs on, so the processor is part of a graph's key, as are ONNX
Runtime's build and the level. The graph that was signed is checked at every load all the same; see `check_graph`.
"""

import hashlib
import logging
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnxruntime

from sandseal_host.optimisation import Optimisation
from sandseal_host.private_cache import PrivateCache
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.model_files import ModelFiles

_MOST = 32 << 20
"""Bytes of a graph: reading a larger one and its MAC takes as long as optimising it (`make bench SUITE=beyond`)."""
_NOT_KEPT = b""  # an entry that says so
_KIND = ("vendor_id", "cpu family", "model", "flags", "CPU", "Features")  # of x86, then of ARM

Make = Callable[[bytes, Optimisation, str | None], onnxruntime.InferenceSession]
"""Makes a session of a graph at a level, and writes the graph that it then has to a path where one is given."""

_log = logging.getLogger(__name__)


class SavedGraphs:
    """The optimised graphs that this host keeps.

    Args:
        kept: where.
    """

    def __init__(self, kept: PrivateCache) -> None:
        self._kept = kept

    def of(self, bundle_id: str, files: ModelFiles, device: Device, optimisation: Optimisation) -> "SavedGraph | None":
        """A graph's place; None where it is not kept: for GPUs, with weights outside, if it is large, not on Linux.

        Args:
            bundle_id: of the bundle that was verified.
            files, device, optimisation: as `Session.open` takes them.
        """
        if sys.platform != "linux" or device.kind is not DeviceKind.CPU or optimisation is Optimisation.NONE:
            return None
        processor, spec = _processor(), files.spec
        if spec.external_data or len(files.graph) > _MOST or not processor:
            return None
        runtime = onnxruntime.get_version_string(), onnxruntime.get_build_info()
        parts = (bundle_id, spec.file, *runtime, optimisation, processor)
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in map(str.encode, parts))
        return SavedGraph(self._kept, hashlib.sha256(framed).hexdigest())


class SavedGraph:
    """One graph's place among them."""

    def __init__(self, kept: PrivateCache, key: str) -> None:
        self._kept, self._key = kept, key

    def open(self, model: bytes, level: Optimisation, make: Make) -> onnxruntime.InferenceSession:
        """A session on the graph that was saved; where there is none, on the model's own, and the graph is saved.

        Args:
            model: the graph that was signed.
            level: to which it is optimised.
            make: raises ONNX Runtime's exceptions.
        """
        graph = self._kept.get(self._key)
        if graph == _NOT_KEPT:
            return make(model, level, None)
        try:
            return self._save(model, level, make) if graph is None else make(graph, Optimisation.NONE, None)
        except Exception as error:  # such as a graph that is too large to be written
            core = make(model, level, None)  # where this fails as well, it was not for the graph's being kept
            _log.warning("the optimised graph is not kept: %s", error)
            self._kept.put(self._key, _NOT_KEPT)
            return core

    def _save(self, model: bytes, level: Optimisation, make: Make) -> onnxruntime.InferenceSession:
        descriptor = os.memfd_create("sandseal-graph")
        try:
            core = make(model, level, f"/proc/self/fd/{descriptor}")
            size = os.fstat(descriptor).st_size
            self._kept.put(self._key, os.pread(descriptor, size, 0) if size <= _MOST else _NOT_KEPT)
        finally:
            os.close(descriptor)
        return core


@cache
def _processor() -> str:
    """What the machine's first processor says of its kind; nothing where that cannot be read."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return ""
    return "\n".join(line for line in first.splitlines() if line.startswith(_KIND))
