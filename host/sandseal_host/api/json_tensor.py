"""Tensor data as JSON numbers, booleans and strings, both ways.

Numbers keep their meaning or are refused: nothing wraps, no string becomes a number, no boolean an integer. Numbers
beyond a float type become infinite, as in IEEE 754 and Triton. Answers print FP32 as the shortest decimal that reads
back as the same FP32, where Triton prints the double nearest to it.
"""

import re
import struct
from array import array
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sandseal_host.api.settings import NonFinite
from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import KINDS, Tensor, pack_bytes, unpack_bytes
from sandseal_signing.tensor import DataType, TensorSpec

_NESTED = {list}
_LITERALS = {"nan": b"NaN", "inf": b"Infinity", "-inf": b"-Infinity"}
_FLOATS = frozenset({DataType.FP16, DataType.FP32, DataType.FP64, DataType.BF16})
_CODES = {
    DataType.UINT8: "B",
    DataType.UINT16: "H",
    DataType.UINT32: "I",
    DataType.UINT64: "Q",
    DataType.INT8: "b",
    DataType.INT16: "h",
    DataType.INT32: "i",
    DataType.INT64: "q",
    DataType.FP32: "f",
    DataType.FP64: "d",
    DataType.FP16: "d",
    DataType.BF16: "d",
}
_PACKED = frozenset({DataType.FP32, DataType.FP64})
_MAX_PACKED = 4096  # numbers; more would make a long argument list
_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_WORDS: dict[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a fraction (or a number beyond 64 bits)",
    str: "a string",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
_ACCEPTED: dict[DataType, set[type]] = {
    **{dtype: {int} for dtype in DataType},
    **{dtype: {int, float} for dtype in _FLOATS},
    DataType.BOOL: {bool},
    DataType.BYTES: {str},
}


def tensor_from_json(spec: TensorSpec, shape: tuple[int, ...], data: Any, *, booleans: bool = True) -> Tensor:
    """A tensor from a flat list in row-major order, or from lists nested exactly as the shape.

    Args:
        spec: its name and type.
        shape: checked against the spec.
        data: parsed JSON.
        booleans: whether there may be any in it; where not, numbers need no look at each one's type.

    Raises:
        RequestInvalid: the elements are too few, too many, of another type, or out of the type's range.
    """
    flat = _flatten(spec.name, shape, data)
    if booleans or spec.dtype not in _CODES:
        _check_kinds(spec, flat)
    try:
        return Tensor(spec.name, spec.dtype, shape, _array(spec.dtype, flat, shape))
    except TypeError:
        _check_kinds(spec, flat)
        raise
    except (OverflowError, UnicodeEncodeError) as error:
        raise RequestInvalid(
            f"tensor {spec.name!r}: a value does not fit into {spec.dtype} ({error})", tensor=spec.name
        ) from None


def _flatten(name: str, shape: tuple[int, ...], data: Any) -> list[Any]:
    """The elements in row-major order, as many as the shape has."""
    if type(data) is not list:
        raise RequestInvalid(f"tensor {name!r}: data is not a list", tensor=name)
    if len(shape) > 1 and data and type(data[0]) is list:
        fits = len(data) == shape[0]
        for size in shape[1:]:
            fits = fits and set(map(type, data)) <= _NESTED and set(map(len, data)) <= {size}
            if not fits:
                raise RequestInvalid(
                    f"tensor {name!r}: data is neither flat nor nested as its shape {list(shape)}", tensor=name
                )
            data = list(chain.from_iterable(data))
    flat: list[Any] = data
    if len(flat) != prod(shape):
        raise RequestInvalid(
            f"tensor {name!r} has {len(flat)} elements, but its shape {list(shape)} takes {prod(shape)}",
            tensor=name, got=len(flat), wanted=prod(shape),
        )  # fmt: skip
    return flat


def _check_kinds(spec: TensorSpec, flat: list[Any]) -> None:
    strange = set(map(type, flat)) - _ACCEPTED[spec.dtype]
    if strange:
        found = " and ".join(sorted(_WORDS[kind] for kind in strange))
        raise RequestInvalid(f"tensor {spec.name!r}: {found} among data of type {spec.dtype}", tensor=spec.name)


def _array(dtype: DataType, flat: list[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The elements as an array; `array` refuses what is no number of its kind, where NumPy reads strings as numbers."""
    if dtype is DataType.BYTES:
        return pack_bytes([text.encode() for text in flat])
    if dtype is DataType.BOOL:
        return np.fromiter(flat, np.bool_, len(flat)).reshape(shape)
    if dtype in _PACKED and len(flat) <= _MAX_PACKED and (packed := _pack(dtype, flat)) is not None:
        return np.ndarray(shape, KINDS[dtype].numpy, packed)
    values: NDArray[Any] = np.frombuffer(array(_CODES[dtype], flat), _CODES[dtype])
    if dtype in (DataType.FP16, DataType.BF16):
        with np.errstate(over="ignore"):
            values = values.astype(np.float16) if dtype is DataType.FP16 else _to_bf16(values.astype(np.float32))
    return values.reshape(shape)


def _pack(dtype: DataType, flat: list[Any]) -> bytes | None:
    """What `array` would make of the numbers, in a third of its time; None where it makes infinities, or refuses."""
    try:
        return struct.pack(f"{len(flat)}{_CODES[dtype]}", *flat)
    except (struct.error, OverflowError):
        return None


def json_from_tensor(tensor: Tensor, nonfinite: NonFinite, *, nested: bool = False) -> bytes:
    """The tensor's elements as a JSON list: flat, or nested as its shape.

    Raises:
        RequestInvalid: BYTES that are not UTF-8, or NaN and infinities where the settings refuse them.
    """
    shape = tensor.shape if nested else (-1,)
    if tensor.dtype is DataType.BYTES:
        strings = np.empty(len(elements := _strings(tensor)), object)
        strings[:] = elements
        return orjson.dumps(strings.reshape(shape).tolist())
    values = from_bf16(tensor.data) if tensor.dtype is DataType.BF16 else tensor.data
    values = values.reshape(shape)
    text = orjson.dumps(values, option=_NUMPY) if values.ndim else orjson.dumps(values.reshape(1), option=_NUMPY)[1:-1]
    if b"null" in text:  # the one thing that orjson writes for NaN and infinities
        return _write_nonfinite(tensor.name, values, text, nonfinite)
    return text


def _strings(tensor: Tensor) -> list[str]:
    try:
        return [element.decode() for element in unpack_bytes(tensor)]
    except UnicodeDecodeError:
        raise RequestInvalid(
            f"output {tensor.name!r} holds bytes that are not UTF-8, which JSON cannot carry",
            hint="ask for this output with parameters {'binary_data': true}",
            tensor=tensor.name,
        ) from None


def _write_nonfinite(name: str, values: NDArray[Any], text: bytes, nonfinite: NonFinite) -> bytes:
    if nonfinite == "null":
        return text
    if nonfinite == "error":
        raise RequestInvalid(
            f"output {name!r} holds NaN or infinities, which this host does not write as JSON",
            hint="ask for this output with parameters {'binary_data': true}",
            tensor=name,
        )
    flat = values.ravel()
    words = iter([_LITERALS[str(value)] for value in flat[~np.isfinite(flat)]])
    return re.sub(b"null", lambda _: next(words), text)


def _to_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves of FP32 values, rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def from_bf16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """FP32 values of BF16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
