"""BYTES tensors as ONNX Runtime's string tensors and back; these alone cannot be bound to memory."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import Tensor, pack_bytes, unpack_bytes
from sandseal_signing.tensor import DataType


def to_strings(tensor: Tensor) -> NDArray[Any]:
    """A BYTES tensor as an array of str, of its shape.

    Raises:
        RequestInvalid: an element is not UTF-8, which ONNX's strings are.
    """
    try:
        elements = [element.decode() for element in unpack_bytes(tensor)]
    except UnicodeDecodeError as error:
        raise RequestInvalid(f"tensor {tensor.name!r} has an element that is not UTF-8", tensor=tensor.name) from error
    array = np.empty(prod(tensor.shape), object)
    array[:] = elements
    return array.reshape(tensor.shape)


def from_strings(name: str, array: NDArray[Any]) -> Tensor:
    """An array of str as a BYTES tensor."""
    elements = [str(element).encode() for element in array.ravel()]
    return Tensor(name, DataType.BYTES, array.shape, pack_bytes(elements))
