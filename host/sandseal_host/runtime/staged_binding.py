"""IO binding for one run at a time on a device with memory of its own."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import _pybind_state as ort

from sandseal_host.runtime.input_buffer import InputBuffer
from sandseal_host.runtime.staging import DeviceBuffer, Staging, Stream
from sandseal_host.tensors import KINDS, Tensor
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import TensorSpec


class StagedInput:
    """One input's pinned host memory, and as much on the device.

    Args:
        rows: for which there is memory on the device from the beginning, at an address that stays; 0: as it comes.
    """

    def __init__(self, spec: TensorSpec, staging: Staging, copies: Stream, rows: int = 0) -> None:
        self.name, self.kind = spec.name, KINDS[spec.dtype].onnx
        self.host = InputBuffer(KINDS[spec.dtype].numpy, staging.host)
        self._staging, self._copies = staging, copies
        shape = [rows if axis == "batch" else axis for axis in spec.shape] if rows else [0]
        self.memory: DeviceBuffer = staging.memory(prod(map(int, shape)) * KINDS[spec.dtype].size)

    def send(self, parts: list[NDArray[Any]], rows: int) -> tuple[int, tuple[int, ...]]:
        """Gather the parts and begin to copy them to the device.

        Returns:
            How many bytes they are, and their shape.
        """
        data, shape = self.host.gather(parts, rows)
        if data.nbytes > self.memory.nbytes:
            self.memory = self._staging.memory(self.host.nbytes)
        if data.nbytes:
            self._copies.upload(self.memory.pointer, data)
        return data.nbytes, shape

    def release(self) -> None:
        """Give the memory on both sides back; the next batch gets new."""
        self.host.release()
        self.memory = self._staging.memory(0)


class StagedBinding:
    """What `Binding` is, for a device that is not the host: copies on a stream of its own, around a shared one.

    Two of them make two batches in flight: rows of the one are copied while the other's are computed. Putting a run
    on the compute stream takes a lock, the run itself does not. Outputs are copied into pinned memory that belongs
    to whoever holds the arrays returned, as `Binding`'s do.

    Args:
        session: what runs; computes on the staging's compute stream.
        spec: its inputs and outputs, none of them BYTES.
        staging: the session's streams.
        options: of runs that nobody will end.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        spec: ModelSpec,
        staging: Staging,
        options: onnxruntime.RunOptions,
    ) -> None:
        self._core, self._staging, self._options = session._sess, staging, options
        self._io = ort.SessionIOBinding(self._core)
        self._copies = staging.stream()
        self._inputs = [StagedInput(tensor, staging, self._copies) for tensor in spec.inputs]
        self._outputs = [(tensor.name, KINDS[tensor.dtype].numpy) for tensor in spec.outputs]
        self.uploaded = self.downloaded = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the input buffers, host and device."""
        return sum(each.host.nbytes + each.memory.nbytes for each in self._inputs)

    @property
    def gathered(self) -> int:
        """Bytes gathered so far."""
        return sum(each.host.copied for each in self._inputs)

    def run(
        self, requests: Sequence[tuple[Tensor, ...]], rows: int, handle: onnxruntime.RunOptions | None = None
    ) -> list[NDArray[Any]]:
        """Run the requests' rows as one batch; see `Binding.run`."""
        self._staging.enter()
        with self._staging.gate.shared():
            try:
                self._send(requests, rows)
                self._compute(handle or self._options)
                return self._receive()
            finally:
                self._copies.record().wait()  # nothing may read or write this run's memory any more

    def rest(self) -> None:
        """Give the buffers back; the next run gets new ones."""
        self._staging.enter()
        for each in self._inputs:
            each.release()
        self._io.clear_binding_inputs()

    def _send(self, requests: Sequence[tuple[Tensor, ...]], rows: int) -> None:
        for i, each in enumerate(self._inputs):
            size, shape = each.send([inputs[i].data for inputs in requests], rows)
            self.uploaded += size
            self._io.bind_input(each.name, self._staging.ort_device, each.kind, shape, each.memory.pointer)
        for name, _ in self._outputs:
            self._io.bind_output(name, self._staging.ort_device)

    def _compute(self, options: onnxruntime.RunOptions) -> None:
        compute, sent = self._staging.compute, self._copies.record()
        with self._staging.launching:
            compute.follow(sent)
            try:
                self._core.run_with_iobinding(self._io, options)
            finally:
                self._copies.follow(compute.record())

    def _receive(self) -> list[NDArray[Any]]:
        values = self._io.get_outputs()
        arrays = [
            self._fetch(values[i].data_ptr(), values[i].shape(), dtype) for i, (_, dtype) in enumerate(self._outputs)
        ]
        self._copies.record().wait()
        self._io.clear_binding_outputs()
        return arrays

    def _fetch(self, pointer: int, shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Begin to copy an output to the host; read-only there, since neighbours' rows lie in it too."""
        size = prod(shape) * dtype.itemsize
        memory = self._staging.host(size)
        if size:
            self._copies.download(memory, pointer)
        self.downloaded += size
        array = memory[:size].view(dtype).reshape(shape)
        array.flags.writeable = False
        return array
