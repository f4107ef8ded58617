"""IO binding for one run at a time: rows are gathered into its buffers, outputs come back as views."""

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import _pybind_state as ort

from sandseal_host.runtime.device import Device
from sandseal_host.tensors import KINDS, Tensor
from sandseal_signing.manifest import DataType, ModelSpec


class InputBuffer:
    """Host memory that one input's rows are gathered into; grows by powers of two of rows, and is reused.

    Args:
        dtype: of the input.
        device: that reads it.
    """

    __slots__ = ("_device", "_memory", "_pointer", "_rows", "copied", "dtype")

    def __init__(self, dtype: np.dtype[Any], device: Device) -> None:
        self.dtype = dtype
        self.copied = 0  # bytes so far
        self._device = device
        self._use(device.host_buffer(0))
        self._rows: NDArray[Any] = self._memory.view(dtype)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._memory.nbytes

    def place(self, parts: list[NDArray[Any]], rows: int) -> tuple[int, tuple[int, ...]]:
        """Where the parts lie one after the other; copied, unless there is one that can be read where it lies.

        Args:
            parts: arrays of equal shapes behind axis 0.
            rows: of all of them.

        Returns:
            Pointer and shape of the batch; good until the next call and while the parts are.
        """
        first = parts[0]
        flags = first.flags
        if len(parts) == 1:
            if flags.aligned and flags.c_contiguous and first.dtype == self.dtype:
                return first.ctypes.data, first.shape
            parts = [first.reshape(-1)]
            return self._gather(parts, first.size), first.shape
        return self._gather(parts, rows), (rows, *first.shape[1:])

    def _gather(self, parts: list[NDArray[Any]], rows: int) -> int:
        tail = parts[0].shape[1:]
        if len(self._rows) < rows or self._rows.shape[1:] != tail:
            self._shape(rows, tail)
        batch = np.concatenate(parts, 0, self._rows[:rows])
        self.copied += batch.nbytes
        return self._pointer

    def _shape(self, rows: int, tail: tuple[int, ...]) -> None:
        capacity = 1 << (rows - 1).bit_length()
        size = capacity * prod(tail) * self.dtype.itemsize
        if size > self._memory.nbytes:
            self._use(self._device.host_buffer(size))
        self._rows = self._memory[:size].view(self.dtype).reshape(capacity, *tail)

    def _use(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory
        self._pointer = memory.ctypes.data


class Binding:
    """One ONNX Runtime IO binding with its input buffers; several of them make several runs at once.

    Inputs are bound by pointer and ONNX type, which also carries BF16. Outputs are allocated by ONNX Runtime and
    belong to whoever holds the arrays returned: nothing reuses their memory before the last view of it is gone.

    Args:
        session: what runs.
        spec: its inputs and outputs, none of them BYTES.
        device: where it runs.
    """

    def __init__(self, session: onnxruntime.InferenceSession, spec: ModelSpec, device: Device) -> None:
        core = session._sess
        # The wrapper's run_with_iobinding looks up `gpu_graph_id` with every RunOptions, which costs 50 us.
        self._run = core.run_with_iobinding
        self._io = ort.SessionIOBinding(core)
        self._host = ort.OrtDevice(ort.OrtDevice.cpu(), ort.OrtDevice.default_memory(), 0)
        self._inputs = [(s.name, KINDS[s.dtype].onnx, InputBuffer(KINDS[s.dtype].numpy, device)) for s in spec.inputs]
        self._outputs = [(s.name, s.dtype is DataType.BF16) for s in spec.outputs]

    @property
    def nbytes(self) -> int:
        """Bytes of the input buffers."""
        return sum(buffer.nbytes for _, _, buffer in self._inputs)

    @property
    def copied(self) -> int:
        """Bytes gathered so far."""
        return sum(buffer.copied for _, _, buffer in self._inputs)

    def run(self, requests: Sequence[tuple[Tensor, ...]], rows: int) -> list[NDArray[Any]]:
        """Run the requests' rows as one batch.

        Args:
            requests: each the inputs in the spec's order; alone, one that is contiguous and aligned is not copied.
            rows: of all of them.

        Returns:
            The outputs in the spec's order.
        """
        io, host = self._io, self._host
        for i, (name, kind, buffer) in enumerate(self._inputs):
            pointer, shape = buffer.place([inputs[i].data for inputs in requests], rows)
            io.bind_input(name, host, kind, shape, pointer)
        for name, _ in self._outputs:
            io.bind_output(name, host)
        self._run(io, None)
        values = io.get_outputs()
        # By index: iterating the vector ends with a C++ exception, which costs 50 us.
        arrays = [_array(values[i], wide) for i, (_, wide) in enumerate(self._outputs)]
        io.clear_binding_outputs()
        return arrays


def _array(value: Any, bf16: bool) -> NDArray[Any]:
    """A view of an output, which it keeps alive; read-only, since neighbours' rows lie in it too."""
    array = _bf16_view(value) if bf16 else value.numpy()
    array.flags.writeable = False
    return array


def _bf16_view(value: Any) -> NDArray[np.uint16]:
    """NumPy has no BF16, so ONNX Runtime gives no array for it; these are its 16 bits."""
    shape = value.shape()
    count = prod(shape)
    if not count:
        return np.zeros(shape, np.uint16)
    memory = (ctypes.c_uint16 * count).from_address(value.data_ptr())
    memory.owner = value  # lives as long as the view
    return np.frombuffer(memory, np.uint16).reshape(shape)
