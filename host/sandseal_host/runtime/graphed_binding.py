"""Runs that replay a CUDA graph: a model's kernels as one, recorded once for each number of rows."""

from collections.abc import Sequence
from math import prod
from typing import Any

import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import _pybind_state as ort

from sandseal_host.runtime.staged_binding import StagedInput
from sandseal_host.runtime.staging import DeviceBuffer, Staging
from sandseal_host.tensors import KINDS, Tensor
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import DataType, TensorSpec

_RECORDED_AFTER = 3  # runs; ONNX Runtime records after its first one or two


def has_graph(spec: ModelSpec) -> bool:
    """Whether rows alone fix every shape, as a graph needs; its nodes must do their part."""
    return all(
        tensor.dtype is not DataType.BYTES and all(axis == "batch" or isinstance(axis, int) for axis in tensor.shape)
        for tensor in (*spec.inputs, *spec.outputs)
    )


class StagedOutput:
    """One output's memory on the device, at an address that stays."""

    def __init__(self, spec: TensorSpec, rows: int, staging: Staging) -> None:
        self.spec, self.kind = spec, KINDS[spec.dtype]
        self.memory: DeviceBuffer = staging.memory(prod(shape_for(spec, rows)) * self.kind.size)


class GraphedBinding:
    """What `StagedBinding` is, with a graph for each power of two of rows; what is left of one is computed for nobody.

    All is bound at addresses that stay, and recorded when this is made; nobody else may use the device meanwhile,
    since CUDA lets one thread's allocation spoil what another records.

    Args:
        session: what runs; computes on the staging's compute stream, with graphs.
        spec: of a model that `has_graph`.
        staging: the session's streams.
        max_rows: of a batch.
    """

    def __init__(self, session: onnxruntime.InferenceSession, spec: ModelSpec, staging: Staging, max_rows: int) -> None:
        self._core, self._staging, self._max_rows = session._sess, staging, max_rows
        self._io = ort.SessionIOBinding(self._core)
        staging.enter()
        self._copies = staging.stream()
        self._specs = spec.inputs
        with staging.gate.shared():
            self._inputs = [StagedInput(each, staging, self._copies, max_rows) for each in spec.inputs]
            self._outputs = [StagedOutput(each, max_rows, staging) for each in spec.outputs]
        self._graphs: dict[int, onnxruntime.RunOptions] = {}
        self.uploaded = self.downloaded = 0
        with staging.gate.alone():
            for exponent in range((max_rows - 1).bit_length() + 1):
                self._record(min(1 << exponent, max_rows))

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers, host and device."""
        inputs = sum(each.host.nbytes + each.memory.nbytes for each in self._inputs)
        return inputs + sum(each.memory.nbytes for each in self._outputs)

    @property
    def gathered(self) -> int:
        """Bytes gathered so far."""
        return sum(each.host.copied for each in self._inputs)

    def run(
        self, requests: Sequence[tuple[Tensor, ...]], rows: int, handle: onnxruntime.RunOptions | None = None
    ) -> list[NDArray[Any]]:
        """Run the requests' rows as one batch; see `Binding.run`. A graph is not broken off: `handle` does nothing."""
        self._staging.enter()
        with self._staging.gate.shared():
            try:
                for i, each in enumerate(self._inputs):
                    self.uploaded += each.send([inputs[i].data for inputs in requests], rows)[0]
                self._compute(min(1 << (rows - 1).bit_length(), self._max_rows))
                arrays = [self._fetch(each, rows) for each in self._outputs]
            finally:
                self._copies.record().wait()  # nothing may read or write this run's memory any more
        return arrays

    def rest(self) -> None:
        """Nothing: the graphs know the addresses of all memory."""

    def _record(self, rows: int) -> None:
        options = self._graphs[rows] = onnxruntime.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(next(self._staging.graph_ids)))
        for _ in range(_RECORDED_AFTER):
            self._compute(rows)
            self._copies.record().wait()

    def _compute(self, rows: int) -> None:
        device, compute = self._staging.ort_device, self._staging.compute
        for spec, each in zip(self._specs, self._inputs, strict=True):
            self._io.bind_input(each.name, device, each.kind, shape_for(spec, rows), each.memory.pointer)
        for out in self._outputs:
            shape = shape_for(out.spec, rows)
            self._io.bind_output(out.spec.name, device, out.kind.onnx, shape, out.memory.pointer)
        sent = self._copies.record()
        with self._staging.launching:
            compute.follow(sent)
            try:
                self._core.run_with_iobinding(self._io, self._graphs[rows])
            finally:
                self._copies.follow(compute.record())

    def _fetch(self, output: StagedOutput, rows: int) -> NDArray[Any]:
        shape = shape_for(output.spec, rows)
        size = prod(shape) * output.kind.size
        memory = self._staging.host(size)
        self._copies.download(memory, output.memory.pointer)
        self.downloaded += size
        array: NDArray[Any] = memory.view(output.kind.numpy).reshape(shape)
        array.flags.writeable = False
        return array


def shape_for(spec: TensorSpec, rows: int) -> tuple[int, ...]:
    """A tensor's shape with so many rows."""
    return tuple(rows if axis == "batch" else int(axis) for axis in spec.shape)
