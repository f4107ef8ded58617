"""IO binding for one run at a time where the host's memory is the device's: rows are gathered into its buffers."""

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import _pybind_state as ort

from sandseal_host.runtime.input_buffer import InputBuffer
from sandseal_host.tensors import KINDS, Tensor
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import DataType


class Binding:
    """One ONNX Runtime IO binding with its input buffers; several of them make several runs at once.

    Inputs are bound by pointer and ONNX type, which also carries BF16. Outputs are allocated by ONNX Runtime and
    belong to whoever holds the arrays returned: nothing reuses their memory before the last view of it is gone, so
    that they need no leases. Binding our own saves about a microsecond a run (`make bench SUITE=core`, "outputs").

    Args:
        session: what runs.
        spec: its inputs and outputs, none of them BYTES.
    """

    uploaded = downloaded = 0

    def __init__(self, session: onnxruntime.InferenceSession, spec: ModelSpec) -> None:
        core = session._sess
        # The wrapper's run_with_iobinding looks up `gpu_graph_id` with every RunOptions, which costs 50 us.
        self._run = core.run_with_iobinding
        self._io = ort.SessionIOBinding(core)
        self._host = ort.OrtDevice(ort.OrtDevice.cpu(), ort.OrtDevice.default_memory(), 0)
        self._inputs = [(s.name, KINDS[s.dtype].onnx, InputBuffer(KINDS[s.dtype].numpy)) for s in spec.inputs]
        self._outputs = [(s.name, s.dtype is DataType.BF16) for s in spec.outputs]

    @property
    def nbytes(self) -> int:
        """Bytes of the input buffers."""
        return sum(buffer.nbytes for _, _, buffer in self._inputs)

    @property
    def gathered(self) -> int:
        """Bytes gathered so far."""
        return sum(buffer.copied for _, _, buffer in self._inputs)

    def run(
        self, requests: Sequence[tuple[Tensor, ...]], rows: int, handle: onnxruntime.RunOptions | None = None
    ) -> list[NDArray[Any]]:
        """Run the requests' rows as one batch.

        Args:
            requests: each the inputs in the spec's order; alone, one that is contiguous and aligned is not copied.
            rows: of all of them.
            handle: ends the run.

        Returns:
            The outputs in the spec's order.
        """
        io, host = self._io, self._host
        for i, (name, kind, buffer) in enumerate(self._inputs):
            pointer, shape = buffer.place([inputs[i].data for inputs in requests], rows)
            io.bind_input(name, host, kind, shape, pointer)
        for name, _ in self._outputs:
            io.bind_output(name, host)
        self._run(io, handle)
        values = io.get_outputs()
        # By index: iterating the vector ends with a C++ exception, which costs 50 us.
        arrays = [_array(values[i], wide) for i, (_, wide) in enumerate(self._outputs)]
        io.clear_binding_outputs()
        return arrays

    def rest(self) -> None:
        """Give the buffers back; the next run gets new ones."""
        for _, _, buffer in self._inputs:
            buffer.release()
        self._io.clear_binding_inputs()


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
