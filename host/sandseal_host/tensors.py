"""The one tensor type that every room passes on, and the table of data types.

BYTES tensors keep their wire form (each element a 4-byte little-endian length, then its bytes) from the request
body to the guest and back: nothing converts them. BF16 travels as its 16 bits.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from sandseal_host.errors import RequestInvalid
from sandseal_signing.tensor import DataType, TensorSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """What a data type is elsewhere: its NumPy type, bytes per element (0 for BYTES), ONNX TensorProto number."""

    numpy: np.dtype[Any]
    size: int
    onnx: int


KINDS: dict[DataType, Kind] = {
    DataType.BOOL: Kind(np.dtype("?"), 1, 9),
    DataType.UINT8: Kind(np.dtype("u1"), 1, 2),
    DataType.UINT16: Kind(np.dtype("<u2"), 2, 4),
    DataType.UINT32: Kind(np.dtype("<u4"), 4, 12),
    DataType.UINT64: Kind(np.dtype("<u8"), 8, 13),
    DataType.INT8: Kind(np.dtype("i1"), 1, 3),
    DataType.INT16: Kind(np.dtype("<i2"), 2, 5),
    DataType.INT32: Kind(np.dtype("<i4"), 4, 6),
    DataType.INT64: Kind(np.dtype("<i8"), 8, 7),
    DataType.FP16: Kind(np.dtype("<f2"), 2, 10),
    DataType.FP32: Kind(np.dtype("<f4"), 4, 1),
    DataType.FP64: Kind(np.dtype("<f8"), 8, 11),
    DataType.BF16: Kind(np.dtype("<u2"), 2, 16),
    DataType.BYTES: Kind(np.dtype("u1"), 0, 8),
}


_Record = TypeVar("_Record")


@dataclass_transform(frozen_default=True)
def record(cls: type[_Record]) -> type[_Record]:
    """A frozen, slotted dataclass for what is made anew for every request.

    Frozen to type checkers alone: holding it so at run time would make it four times as dear to build.
    """
    return dataclass(slots=True, eq=False)(cls)


@record
class Tensor:
    """A named tensor.

    Args:
        name: as in the model's signature.
        dtype: one of the protocol's types.
        shape: its sizes, without free axes.
        data: C-contiguous; for fixed-size types an array of `shape`, for BYTES a flat uint8 array in wire form.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    data: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return int(self.data.nbytes)

    @property
    def rows(self) -> int:
        """Size of axis 0; 1 for a scalar."""
        return self.shape[0] if self.shape else 1


def blank(spec: TensorSpec, shape: tuple[int, ...]) -> Tensor:
    """A tensor of zeros, or of empty strings."""
    kind = KINDS[spec.dtype]
    data = np.zeros(shape if kind.size else 4 * prod(shape), kind.numpy)
    return Tensor(spec.name, spec.dtype, shape, data)


def tensor_from_buffer(name: str, dtype: DataType, shape: tuple[int, ...], buffer: Any) -> Tensor:
    """A tensor that views `buffer` without copying.

    Raises:
        RequestInvalid: the buffer's length is not what dtype and shape say, or BYTES elements do not fill it.
    """
    view = memoryview(buffer).cast("B")
    if dtype is DataType.BYTES:
        check_bytes_elements(name, view, prod(shape))
        return Tensor(name, dtype, shape, np.frombuffer(view, np.uint8))
    kind = KINDS[dtype]
    wanted = prod(shape) * kind.size
    if len(view) != wanted:
        raise RequestInvalid(
            f"tensor {name!r} has {len(view)} bytes, but {dtype} {list(shape)} takes {wanted}",
            tensor=name, got=len(view), wanted=wanted,
        )  # fmt: skip
    return Tensor(name, dtype, shape, np.frombuffer(view, kind.numpy).reshape(shape))


def check_bytes_elements(name: str, view: memoryview, count: int) -> None:
    """Walk a BYTES tensor's elements; the walk must end exactly at the end after `count`.

    Raises:
        RequestInvalid: an element reaches beyond the buffer, or bytes are left over.
    """
    at, end = 0, len(view)
    for i in range(count):
        length = int.from_bytes(view[at : at + 4], "little") if at + 4 <= end else end
        at += 4 + length
        if at > end:
            raise RequestInvalid(f"tensor {name!r}: BYTES element {i} of {count} reaches beyond the data", tensor=name)
    if at != end:
        raise RequestInvalid(f"tensor {name!r}: {end - at} bytes after its {count} BYTES elements", tensor=name)


def pack_bytes(elements: list[bytes]) -> NDArray[np.uint8]:
    """BYTES elements in wire form."""
    return np.frombuffer(
        bytearray().join(part for e in elements for part in (len(e).to_bytes(4, "little"), e)), np.uint8
    )


def unpack_bytes(tensor: Tensor) -> list[bytes]:
    """The elements of a well-formed BYTES tensor, row-major."""
    data, at, elements = tensor.data.tobytes(), 0, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        elements.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return elements


def check_shape(spec: TensorSpec, shape: tuple[int, ...], free: dict[str, int]) -> None:
    """Check a shape against its spec; `free` collects the sizes of named axes across one request's tensors.

    Raises:
        RequestInvalid: rank, a fixed size, or a named axis that differs from its first use.
    """
    good = len(shape) == len(spec.shape) and all(
        size == axis if isinstance(axis, int) else size == free.setdefault(axis, size)
        for size, axis in zip(shape, spec.shape, strict=True)
    )
    if not good:
        raise RequestInvalid(
            f"tensor {spec.name!r} has shape {list(shape)}, but the model takes {list(spec.shape)}"
            + (f" with {free}" if free else ""),
            tensor=spec.name, got=list(shape), wanted=list(spec.shape),
        )  # fmt: skip
