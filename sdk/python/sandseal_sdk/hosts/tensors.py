"""NumPy arrays as the Open Inference Protocol's tensors, in its binary form."""

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandseal_sdk.errors import AnswerInvalid, TensorInvalid

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMPY = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_DATATYPES = {code.lstrip("<"): name for name, code in _NUMPY.items()} | {"b1": "BOOL"}


def encode_tensor(name: str, array: "NDArray[Any]") -> tuple[dict[str, Any], memoryview]:
    """What the JSON says of a tensor, and its bytes; these lie in the array's own memory where they can.

    Arrays of `bytes` or `str` become BYTES; ml_dtypes' `bfloat16` becomes BF16.

    Raises:
        TensorInvalid: the protocol has no such datatype.
    """
    import numpy as np

    array = np.asarray(array)
    if array.dtype.kind in "OSU":
        kind, data = "BYTES", memoryview(_join(name, array.ravel().tolist()))
    elif found := _DATATYPES.get(array.dtype.str[1:]):
        kind, data = found, _bytes_of(array, array.dtype.newbyteorder("<"))
    elif array.dtype.name == "bfloat16":
        kind, data = "BF16", _bytes_of(array.view(np.uint16), "<u2")
    else:
        raise TensorInvalid(
            f"input {name!r} is an array of {array.dtype}, which no datatype carries", hint=f"convert it: {_KINDS}"
        )
    described = {"name": name, "datatype": kind, "shape": array.shape, "parameters": {"binary_data_size": len(data)}}
    return described, data


def decode_tensors(document: Mapping[str, Any], rest: memoryview) -> dict[str, "NDArray[Any]"]:
    """The arrays of an answer by name, in memory of their own; BF16 as float32, BYTES as objects.

    Args:
        rest: what follows the JSON.

    Raises:
        AnswerInvalid: the bytes are not what the JSON says.
    """
    arrays = {}
    try:
        for output in document["outputs"]:
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                arrays[output["name"]] = _of_json(output)
            else:
                arrays[output["name"]] = _of_bytes(output["datatype"], output["shape"], rest[:size])
                rest = rest[size:]
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise AnswerInvalid(f"the answer's outputs do not hold together: {error!r}") from None
    return arrays


def _bytes_of(array: "NDArray[Any]", dtype: Any) -> memoryview:
    import numpy as np

    return np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8).data


def _join(name: str, items: list[Any]) -> bytes:
    parts: list[bytes] = []
    for item in items:
        if not isinstance(item, str | bytes):
            raise TensorInvalid(
                f"input {name!r} holds a {type(item).__name__} among its objects", hint="objects are bytes or str"
            )
        part = item if isinstance(item, bytes) else item.encode()
        parts += (struct.pack("<I", len(part)), part)
    return b"".join(parts)


def _of_json(output: Mapping[str, Any]) -> "NDArray[Any]":
    import numpy as np

    kind, shape = output["datatype"], output["shape"]
    if kind == "BYTES":
        return np.array([text.encode() for text in output["data"]], object).reshape(shape)
    return np.array(output["data"], _NUMPY.get(kind, "<f4")).reshape(shape)


def _of_bytes(kind: str, shape: list[int], data: memoryview) -> "NDArray[Any]":
    import numpy as np

    if kind == "BYTES":
        texts = _split(data)
        items = np.empty(len(texts), object)
        items[:] = texts
        return items.reshape(shape)
    if kind == "BF16":
        halves = np.frombuffer(data, "<u2").astype(np.uint32)
        return (halves << 16).view(np.float32).reshape(shape)
    return np.frombuffer(bytearray(data), _NUMPY[kind]).reshape(shape)


def _split(data: memoryview) -> list[bytes]:
    at, items = 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        at += 4 + length
        items.append(bytes(data[at - length : at]))
    if at != len(data):
        raise ValueError("an element reaches beyond the data")
    return items


_KINDS = ", ".join(code.lstrip("<") for code in _NUMPY.values()) + ", bytes or str"
