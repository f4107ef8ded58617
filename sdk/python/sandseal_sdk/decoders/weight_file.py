"""The file beside an ONNX graph that its weights lie in, written from front to back."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

_PAGE = 4096  # so that a reader can map each tensor

_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16,
          np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}  # fmt: skip


class WeightFile:
    """Writes tensors one after another, never holding more than the part that it is given.

    Args:
        path: created.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._file = path.open("xb")

    def add(self, name: str, dtype: Any, shape: Sequence[int], parts: Iterable[NDArray[Any]]) -> onnx.TensorProto:
        """Write one tensor and return the initializer that points at it.

        Args:
            dtype: NumPy's; parts are converted to it.
            parts: in order, contiguous along the first axis.
        """
        start = self._file.tell() + -self._file.tell() % _PAGE
        self._file.seek(start)
        for part in parts:
            self._file.write(np.ascontiguousarray(part, dtype).data)
        where = {"location": self._name, "offset": start, "length": self._file.tell() - start}
        return onnx.TensorProto(
            name=name,
            data_type=_TYPES[np.dtype(dtype)],
            dims=shape,
            data_location=TensorProto.EXTERNAL,
            external_data=[onnx.StringStringEntryProto(key=key, value=str(value)) for key, value in where.items()],
        )

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
