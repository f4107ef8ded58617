"""A model loaded on a device: verified bytes in, batches of rows through, memory back at the end."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from types import TracebackType
from typing import Any, Self

import onnxruntime
from numpy.typing import NDArray

from sandseal_host.errors import ModelFailed, ModelInvalid, NotReady
from sandseal_host.optimisation import Optimisation
from sandseal_host.runtime.binding import Binding
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.failures import run_failure
from sandseal_host.runtime.feeds import Feeds
from sandseal_host.runtime.graph import check_graph, has_control_flow
from sandseal_host.runtime.graphed_binding import GraphedBinding, has_graph
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.opening import open_core
from sandseal_host.runtime.saved_graphs import SavedGraph
from sandseal_host.runtime.signature import check_signature
from sandseal_host.runtime.staged_binding import StagedBinding
from sandseal_host.runtime.staging import Staging
from sandseal_host.runtime.text import from_strings
from sandseal_host.tensors import Tensor, blank
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import DataType, TensorSpec

_Binding = Binding | StagedBinding | GraphedBinding | Feeds


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """A session's memory and copies.

    Bytes that are copied where rows are split again: none, outputs are views.

    Args:
        device: where it runs.
        resident_bytes: how much more of the device's memory (on the CPU: the process's) was in use when it was loaded
            and warmed; 0 where the system does not say. Loads at the same time count in each other's.
        buffer_bytes: held by its input buffers.
        bindings: runs that it can have in flight without making new buffers.
        runs_total: batches that it was asked to run.
        gathered_bytes_total: copied into the buffers; on the CPU a single contiguous request is not.
        uploaded_bytes_total: copied to the device; on the CPU nothing is.
        downloaded_bytes_total: copied from the device.
        warm: whether the warm-up run went through; a model may rightly refuse the zeros that it is given.
    """

    device: str
    resident_bytes: int
    buffer_bytes: int
    bindings: int
    runs_total: int
    gathered_bytes_total: int
    uploaded_bytes_total: int
    downloaded_bytes_total: int
    warm: bool


class Session:
    """A loaded model; runs batches, several at once, each in buffers of its own. Made by `open`."""

    def __init__(self, spec: ModelSpec, core: onnxruntime.InferenceSession, device: Device, max_rows: int) -> None:
        tensors = (*spec.inputs, *spec.outputs)
        self._spec, self._core, self._device = spec, core, device
        self._batched = all(tensor.batched for tensor in tensors)
        self._max_rows = max_rows if self._batched else 1
        self._free_axes = any(isinstance(axis, str) for s in spec.inputs for axis in s.shape[self._batched :])
        self._text = any(tensor.dtype is DataType.BYTES for tensor in tensors)
        self._staging: Staging | None = None
        self._graph_rows = 0
        self._free: list[_Binding] = []  # list.pop and append are atomic
        self._made: list[_Binding] = []
        self._runs = self._runs_at_rest = 0
        self._resting = Lock()  # held by what must not meet `close`
        self._resident = 0
        self._warm = False
        self._small = True  # nothing to give back
        self._closed = False

    @classmethod
    def open(
        cls,
        files: ModelFiles,
        device: Device,
        *,
        threads: int = 1,
        optimisation: Optimisation = Optimisation.ALL,
        max_rows: int | None = None,
        graphs: bool = False,
        saved: SavedGraph | None = None,
        warming: Callable[[onnxruntime.RunOptions], None] = lambda _: None,
    ) -> Self:
        """Load a model and run it once.

        Args:
            files: the model's.
            device: where it runs; never anywhere else.
            threads: that one run uses.
            optimisation: how far the graph may be changed.
            max_rows: the most rows of a run, where fewer than the manifest's.
            graphs: record CUDA graphs where the model's shapes allow it.
            saved: where its graph is kept once it is optimised.
            warming: called when all is loaded, with what ends the first run; see `handle`.

        Raises:
            ModelInvalid: it does not load, or is not what the manifest says.
            DeviceUnavailable: it cannot run on the device.
            MemoryExhausted: there is no room.
        """
        before, spec = device.used(), files.spec
        locations = check_graph(spec, files.graph)
        staging = device.staging()
        graphs = graphs and staging is not None and has_graph(spec) and not has_control_flow(files.graph)
        core = open_core(
            files,
            locations,
            device,
            staging,
            threads=threads,
            optimisation=optimisation,
            graphs=graphs,
            saved=saved,
        )
        session = cls(spec, core, device, min(spec.batching.max_rows, max_rows or spec.batching.max_rows))
        session._staging, session._graph_rows = staging, session._max_rows if graphs else 0
        try:
            device.check_session(core)
            check_signature(spec, core)
            handle = session.handle()
            warming(handle)
            session._warm_up(handle)
        except Exception:
            session.close()
            raise
        session._resident = max(0, device.used() - before)
        return session

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._device

    @property
    def closed(self) -> bool:
        """Whether its memory was given back."""
        return self._closed

    @property
    def max_rows(self) -> int:
        """The most rows that one run takes."""
        return self._max_rows

    def bucket(self, inputs: tuple[Tensor, ...]) -> Hashable:
        """What requests must have in common to share a batch: their shapes behind the batch axis."""
        if not self._free_axes:
            return None
        return tuple([tensor.shape[self._batched :] for tensor in inputs])

    def settle(self) -> None:
        """Keep the calling thread, which will run batches, near the device."""
        self._device.settle()

    def handle(self) -> onnxruntime.RunOptions:
        """What a run can be ended by: set its `terminate` from any thread; one that was set ends every further run."""
        return self._device.backend.run_options()

    def run(
        self, requests: Sequence[tuple[Tensor, ...]], handle: onnxruntime.RunOptions | None = None
    ) -> list[tuple[Tensor, ...]]:
        """Run requests of one bucket as one batch.

        Args:
            requests: each the inputs in the spec's order; a single one where the model has no batch axis.
            handle: ends the run; None where nobody will.

        Returns:
            Each request's outputs in the spec's order: views, valid while they are referenced.

        Raises:
            ModelFailed, RequestInvalid: an input caused it, or may have.
            MemoryExhausted: the device had no room.
            NotReady: the session is closed.
        """
        rows = [inputs[0].shape[0] for inputs in requests] if self._batched else [1]
        arrays = self._run(requests, sum(rows), handle)
        mismatch = self._mismatch(arrays, sum(rows))
        if mismatch:
            raise ModelFailed(mismatch)
        return self._split(arrays, rows)

    def statistics(self) -> SessionStatistics:
        """The figures at this moment."""
        return SessionStatistics(
            device=str(self._device),
            resident_bytes=self._resident,
            buffer_bytes=sum(binding.nbytes for binding in self._made),
            bindings=len(self._made),
            runs_total=self._runs,
            gathered_bytes_total=sum(binding.gathered for binding in self._made),
            uploaded_bytes_total=sum(binding.uploaded for binding in self._made),
            downloaded_bytes_total=sum(binding.downloaded for binding in self._made),
            warm=self._warm,
        )

    def rest(self) -> None:
        """Give back what runs have left behind, if there was none since the last time that this was called; blocks.

        ONNX Runtime's arena keeps all that its largest run needed; only a run that is told to shrinks it.
        """
        with self._resting:
            idle, self._runs_at_rest = self._runs == self._runs_at_rest, self._runs
            if self._closed or not idle or not self._warm or self._small:
                return
            spare = []
            with suppress(IndexError):
                while True:
                    spare.append(self._free.pop())  # each is nobody else's from here on
            for binding in spare:
                binding.rest()
            self._free += spare
            handle = self.handle()
            handle.add_run_config_entry(
                "memory.enable_memory_arena_shrinkage", f"{self._device.backend.arena}:{self._device.index}"
            )
            self._run([self._blank(1)], 1, handle)
            self._runs_at_rest, self._small = self._runs, True
            self._device.release()

    def close(self) -> None:
        """Give all memory back; no run may be in flight. Outputs that are still referenced stay valid."""
        with self._resting:
            self._closed = True
            self._free.clear()
            self._made.clear()
            self._core = self._staging = None
        self._device.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(
        self, requests: Sequence[tuple[Tensor, ...]], rows: int, handle: onnxruntime.RunOptions | None = None
    ) -> list[NDArray[Any]]:
        self._runs, self._small = self._runs + 1, False
        try:
            binding = self._free.pop()
        except IndexError:
            binding = self._make()
        try:
            return binding.run(requests, rows, handle)
        except Exception as error:
            raise run_failure(error) from error
        finally:
            self._free.append(binding)

    def _make(self) -> _Binding:
        if self._closed:
            raise NotReady("the session is closed")
        made = (
            Feeds(self._core, self._spec)
            if self._text
            else self._device.backend.binding(self._core, self._spec, self._staging, self._graph_rows)
        )
        self._made.append(made)
        return made

    def _split(self, arrays: list[NDArray[Any]], rows: list[int]) -> list[tuple[Tensor, ...]]:
        """Each request's rows of each output."""
        ends = list(accumulate(rows))
        ranges = list(zip([0, *ends], ends, strict=False))
        outputs = [_parts(spec, array, ranges) for spec, array in zip(self._spec.outputs, arrays, strict=True)]
        return list(zip(*outputs, strict=True))

    def _mismatch(self, arrays: list[NDArray[Any]], rows: int) -> str:
        """What is wrong with the outputs' shapes; empty if nothing. Nobody may get another's rows."""
        for spec, array in zip(self._spec.outputs, arrays, strict=True):
            shape = array.shape
            if len(shape) != len(spec.shape) or any(
                size != axis if isinstance(axis, int) else self._batched and axis == "batch" and size != rows
                for size, axis in zip(shape, spec.shape, strict=True)
            ):
                return f"output {spec.name!r} has shape {list(shape)} for {rows} rows, not {list(spec.shape)}"
        return ""

    def _warm_up(self, handle: onnxruntime.RunOptions) -> None:
        """Run two rows of zeros: allocates what runs need, and shows whether the outputs' rows are the inputs'."""
        rows = min(2, self._max_rows)
        try:
            arrays = self._run([self._blank(rows)], rows, handle)
        except ModelFailed:
            return
        mismatch = self._mismatch(arrays, rows)
        if mismatch:
            raise ModelInvalid(mismatch, file=self._spec.file)
        while self._graph_rows and len(self._made) < self._device.backend.runs_at_once:
            self._free.append(self._make())  # so that no graph is recorded while requests wait
        self._warm = True

    def _blank(self, rows: int) -> tuple[Tensor, ...]:
        return tuple(_zeros(spec, rows if self._batched else 1) for spec in self._spec.inputs)


def _parts(spec: TensorSpec, array: NDArray[Any], ranges: Sequence[tuple[int, int]]) -> list[Tensor]:
    """The ranges of an output's rows, each as a tensor; the whole array where there is but one."""
    name, dtype = spec.name, spec.dtype
    if dtype is DataType.BYTES:
        return [from_strings(name, array[a:b] if len(ranges) > 1 else array) for a, b in ranges]
    if len(ranges) == 1:
        return [Tensor(name, dtype, array.shape, array)]
    tail = array.shape[1:]
    return [Tensor(name, dtype, (b - a, *tail), array[a:b]) for a, b in ranges]


def _zeros(spec: TensorSpec, rows: int) -> Tensor:
    """An input of zeros (empty strings), with free axes of size 1."""
    return blank(spec, tuple(rows if axis == "batch" else 1 if isinstance(axis, str) else axis for axis in spec.shape))
