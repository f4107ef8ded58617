"""An ONNX file as the source of an export: checked, its rows freed, its operators brought to another version."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import version_converter

from sandseal_sdk.bundles.graph import summarise
from sandseal_sdk.errors import ExportFailed, ModelUnreadable
from sandseal_sdk.exporting.comparison import Graph
from sandseal_sdk.exporting.samples import Arrays, example_size
from sandseal_signing.tensor import DataType, TensorSpec


class OnnxSource:
    """An ONNX file.

    Args:
        path: the file; external data lies beside it.
        free_rows: let axis 0, fixed in the file, take any number of rows. The comparison then gives the original
            one row at a time.
        opset: the version of ONNX's operators to convert to; None leaves it.

    Raises:
        ModelUnreadable: not ONNX.
    """

    def __init__(self, path: Path, *, free_rows: bool = False, opset: int | None = None) -> None:
        self._path, self._free_rows, self._opset = path, free_rows, opset
        try:
            self._model = onnx.load(path)
            onnx.checker.check_model(self._model)
        except (DecodeError, OSError, onnx.checker.ValidationError) as error:
            raise ModelUnreadable(f"{path} is not a valid ONNX model: {error}") from None
        self._graph = Graph(path)
        self.description = f"the ONNX file {path.name} of {self._model.producer_name or 'an unnamed producer'}"
        self.inputs: Sequence[TensorSpec] = [self._spec(tensor) for tensor in summarise(path).model["inputs"]]
        axes = {axis for spec in self.inputs for axis in spec.shape if isinstance(axis, str)}
        self.sizes: Mapping[str, int] = {axis: example_size(axis) for axis in axes}

    def write(self, path: Path) -> Sequence[str]:
        """Write the file, changed as asked."""
        choices = [self._convert()]
        if self._free_rows:
            for value in (*self._inputs(), *self._model.graph.output):
                value.type.tensor_type.shape.dim[0].dim_param = "batch"
            del self._model.graph.value_info[:]  # inferred with the fixed size
            choices.append("Axis 0 takes any number of rows: asked for, and compared with the original row by row.")
        onnx.save(self._model, path)
        return choices

    def run(self, arrays: Arrays) -> Sequence[NDArray[Any]]:
        """The original's outputs."""
        if not self._free_rows:
            return self._graph.run(arrays)
        rows = len(next(iter(arrays.values())))
        each = [self._graph.run({n: a[i : i + 1] for n, a in arrays.items()}) for i in range(rows)]
        return [np.concatenate(parts) for parts in zip(*each, strict=True)]

    def _spec(self, tensor: dict[str, Any]) -> TensorSpec:
        shape = tuple(tensor["shape"])
        if self._free_rows:
            if shape[:1] != (1,):
                raise ExportFailed(
                    f"axis 0 of input {tensor['name']!r} is {list(shape)[:1]}, not one row",
                    hint="leave out --free-rows",
                )
            shape = ("batch", *shape[1:])
        return TensorSpec(tensor["name"], DataType(tensor["dtype"]), shape)

    def _inputs(self) -> list[Any]:
        weights = {initializer.name for initializer in self._model.graph.initializer}
        return [value for value in self._model.graph.input if value.name not in weights]

    def _convert(self) -> str:
        now = next((entry.version for entry in self._model.opset_import if not entry.domain), 0)
        if self._opset in (None, now):
            return f"Operators of ONNX's opset {now}, as in the file."
        try:
            self._model = version_converter.convert_version(self._model, self._opset)
        except RuntimeError as error:
            raise ExportFailed(f"opset {now} does not convert to {self._opset}: {error}") from None
        return f"Operators converted from ONNX's opset {now} to {self._opset}, as asked."
