"""Tensors as people write them: numbers, text and lists in a test case or a call, objects that stand for files."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandseal_sdk.errors import CaseInvalid
from sandseal_signing.schema import Node
from sandseal_signing.tensor import DataType, TensorSpec

_MOST_INLINE = 64  # elements that a case holds itself; more become a file


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor in a case.

    Args:
        shape: its sizes.
        data: an array of that shape; for BYTES the elements, row-major.
    """

    shape: tuple[int, ...]
    data: NDArray[Any] | Sequence[bytes]

    def plain(self) -> Any:
        """As Python has it: the array, or nested lists of bytes."""
        if isinstance(self.data, np.ndarray):
            return self.data
        return _elements(self.data, self.shape)


def numpy_type(dtype: DataType) -> np.dtype[Any]:
    """The element type of an array for a tensor; BF16 as its 16 bits."""
    return np.dtype("uint16" if dtype is DataType.BF16 else dtype.lower().replace("fp", "float"))


def read_value(written: Any, tensor: TensorSpec, folder: Path, where: str = "") -> Value:
    """A tensor from what stands for it.

    Args:
        written: a number, text, bytes, array, nested list, or one of the objects of `cases`.
        tensor: what it is to be.
        folder: where files lie.
        where: its place in the document, for errors.

    Raises:
        CaseInvalid: an object that is none of those.
        OSError, ValueError: a file that cannot be read, or data of another form.
    """
    if isinstance(written, dict):
        return _described(written, tensor, folder, where)
    if isinstance(written, (str, bytes)):
        return _of_bytes(_as_bytes(written), tensor)
    if tensor.dtype is DataType.BYTES:
        elements = np.array(written, dtype=object)
        return Value(elements.shape, [_as_bytes(element) for element in elements.ravel()])
    return _of_array(np.asarray(written), tensor)


def write_value(value: Value, tensor: TensorSpec, folder: Path, file: str, *, inline: bool) -> Any:
    """The inverse of `read_value`: what to write into the case.

    Args:
        folder: where files lie.
        file: the file for what does not fit into the case: .npy, or of any other name the bytes alone.
        inline: whether a small tensor may stand in the case itself.
    """
    if isinstance(value.data, np.ndarray):
        if inline and value.data.size <= _MOST_INLINE and tensor.dtype is not DataType.BF16:
            return _shortest(value.data)
        _write_file(folder / file, value.data)
        return {"file": file}
    if not inline and len(value.data) == 1:
        (folder / file).write_bytes(value.data[0])
        return {"file": file}
    return _elements([_as_text(element) for element in value.data], value.shape)


def _described(written: dict[str, Any], tensor: TensorSpec, folder: Path, where: str) -> Value:
    """A value that an object describes."""
    node = Node(written, where, CaseInvalid)
    if node.has("file"):
        value = _of_file(folder / node.text("file"), tensor)
    elif node.has("base64"):
        value = _of_bytes(_decoded(node), tensor)
    elif node.has("random"):
        value = Value(shape := _shape(node), _random(shape, node.integer("random"), tensor))
    else:
        array = np.full(_shape(node), node.take("fill", 0))
        array = array.astype(numpy_type(tensor.dtype))
        for *index, element in node.take("set", []):
            array[tuple(index)] = element
        value = Value(array.shape, array)
    node.close()
    return value


def _shape(node: Node) -> tuple[int, ...]:
    shape = node.take("shape")
    if not isinstance(shape, list) or not all(type(axis) is int and axis >= 0 for axis in shape):
        node.fail("shape", "must be a list of sizes")
    if prod(shape) > 1 << 28:
        node.fail("shape", "is too large for a test")
    return tuple(shape)


def _as_bytes(element: Any) -> bytes:
    """One BYTES element."""
    if isinstance(element, dict):
        return _decoded(Node(element, "an element", CaseInvalid))
    return element if isinstance(element, bytes) else str(element).encode()


def _decoded(node: Node) -> bytes:
    try:
        return base64.b64decode(node.text("base64", valid=lambda text: True), validate=True)
    except binascii.Error as error:
        node.fail("base64", str(error))


def _as_text(element: bytes) -> Any:
    """The inverse of `_as_bytes`."""
    try:
        return element.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(element).decode()}


def _elements(elements: Sequence[Any], shape: tuple[int, ...]) -> Any:
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array.reshape(shape).tolist()


def _shortest(array: NDArray[Any]) -> Any:
    """Numbers with no more digits than their type holds."""
    return array.tolist() if array.dtype.kind != "f" else array.astype(str).astype(float).tolist()


def _of_file(path: Path, tensor: TensorSpec) -> Value:
    if path.suffix == ".npy":
        return _of_array(np.load(path, allow_pickle=False), tensor)
    return _of_bytes(path.read_bytes(), tensor)


def _write_file(path: Path, array: NDArray[Any]) -> None:
    if path.suffix == ".npy":
        np.save(path, array, allow_pickle=False)
    else:
        path.write_bytes(array.tobytes())


def _of_bytes(data: bytes, tensor: TensorSpec) -> Value:
    if tensor.dtype is DataType.BYTES:
        return Value((1,) * len(tensor.shape), [data])
    array = np.frombuffer(data, np.uint8)
    return _of_array(array if tensor.dtype is DataType.UINT8 else array.view(numpy_type(tensor.dtype)), tensor)


def _of_array(array: NDArray[Any], tensor: TensorSpec) -> Value:
    cast = array.astype(numpy_type(tensor.dtype))
    return Value(cast.shape, cast)


def _random(shape: tuple[int, ...], seed: int, tensor: TensorSpec) -> NDArray[Any]:
    source, kind = np.random.default_rng(seed), numpy_type(tensor.dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return source.integers(limits.min, limits.max, shape, kind, endpoint=True)
    return source.random(shape).astype(kind)
