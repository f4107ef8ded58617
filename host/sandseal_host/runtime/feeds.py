"""Runs of graphs with strings, which cannot be bound to memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sandseal_host.errors import ModelInvalid
from sandseal_host.runtime.text import to_strings
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import DataType


class Feeds:
    """What `Binding` is, through ONNX Runtime's own arrays: BYTES become arrays of str.

    Args:
        session: what runs.
        spec: its inputs and outputs.

    Raises:
        ModelInvalid: a tensor is BF16, which ONNX Runtime takes by binding only.
    """

    nbytes = uploaded = downloaded = 0

    def __init__(self, session: onnxruntime.InferenceSession, spec: ModelSpec) -> None:
        for tensor in (*spec.inputs, *spec.outputs):
            if tensor.dtype is DataType.BF16:
                raise ModelInvalid(f"{tensor.name!r} is BF16, which does not go with BYTES in one model")
        self._run = session._sess.run
        self._inputs = [(s.name, s.dtype is DataType.BYTES) for s in spec.inputs]
        self._outputs = [s.name for s in spec.outputs]
        self.gathered = 0

    def run(
        self, requests: Sequence[tuple[Tensor, ...]], rows: int, handle: onnxruntime.RunOptions | None = None
    ) -> list[NDArray[Any]]:
        """Run the requests' rows as one batch.

        Args:
            requests: each the inputs in the spec's order.
            rows: of all of them.
            handle: ends the run.

        Returns:
            The outputs in the spec's order; arrays of str for BYTES.

        Raises:
            RequestInvalid: an element is not UTF-8.
        """
        feeds: dict[str, NDArray[Any]] = {}
        for i, (name, text) in enumerate(self._inputs):
            parts = [to_strings(inputs[i]) if text else inputs[i].data for inputs in requests]
            feeds[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
            self.gathered += feeds[name].nbytes
        arrays: list[NDArray[Any]] = self._run(self._outputs, feeds, handle)
        return arrays

    def rest(self) -> None:
        """There are no buffers to give back."""
