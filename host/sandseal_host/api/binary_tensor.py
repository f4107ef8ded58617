"""Tensors that lie in a request's body as they are: views, not copies.

Binary tensors follow the JSON without padding, little-endian and row-major, in the order of the JSON's inputs.
"""

from math import prod

import numpy as np

from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import KINDS, Tensor, tensor_from_buffer
from sandseal_signing.manifest import DataType, TensorSpec


class Tail:
    """The binary part of a body, taken front to back in the order of the JSON's inputs.

    Args:
        body: the whole request.
        start: where its binary part begins.
    """

    def __init__(self, body: memoryview, start: int) -> None:
        self._body, self._at = body, start

    def take(self, name: str, size: int) -> memoryview:
        """The next `size` bytes, for the input of that name.

        Raises:
            RequestInvalid: the body has fewer.
        """
        left = len(self._body) - self._at
        if not 0 <= size <= left:
            raise RequestInvalid(
                f"input {name!r}: binary_data_size is {size}, but the body has {left} bytes left",
                tensor=name, got=left, wanted=size,
            )  # fmt: skip
        self._at += size
        return self._body[self._at - size : self._at]

    def close(self) -> None:
        """Refuse bytes that belong to no input.

        Raises:
            RequestInvalid: some are left.
        """
        if self._at != len(self._body):
            raise RequestInvalid(
                f"{len(self._body) - self._at} bytes are left over after the last binary input",
                hint="Inference-Header-Content-Length and every binary_data_size must add up to the body's length",
            )


def binary_tensor(spec: TensorSpec, shape: tuple[int, ...], part: memoryview) -> Tensor:
    """A tensor that views its part of the body; copied only where it does not lie as its type must.

    Raises:
        RequestInvalid: the length is not the shape's, or a BOOL is neither 0 nor 1.
    """
    tensor = tensor_from_buffer(spec.name, spec.dtype, shape, part)
    if spec.dtype is DataType.BOOL and (tensor.data.view(np.uint8) > 1).any():
        raise RequestInvalid(f"tensor {spec.name!r}: a BOOL is one byte, 0 or 1", tensor=spec.name)
    if not tensor.data.flags.aligned:
        return Tensor(spec.name, spec.dtype, shape, tensor.data.copy())
    return tensor


def raw_tensor(spec: TensorSpec, body: memoryview) -> Tensor:
    """The tensor that a body without any JSON is.

    The batch axis is 1, one other axis may be free and follows from the length; BYTES are the body as one element.

    Raises:
        RequestInvalid: the spec or the length does not allow that.
    """
    shape = [1 if axis == "batch" else axis for axis in spec.shape]
    free = [at for at, axis in enumerate(shape) if isinstance(axis, str)]
    fixed = prod(axis for axis in shape if isinstance(axis, int))
    size = 1 if spec.dtype is DataType.BYTES else len(body) // (fixed * KINDS[spec.dtype].size or 1)
    if len(free) > 1:
        raise RequestInvalid(
            f"input {spec.name!r} has {len(free)} free axes, which the length alone does not tell",
            hint="send the input with its shape to /v2/models/{model}/infer",
            tensor=spec.name,
        )
    for at in free:
        shape[at] = size
    sizes = tuple(axis for axis in shape if isinstance(axis, int))
    if spec.dtype is not DataType.BYTES:
        return binary_tensor(spec, sizes, body)
    if prod(sizes) != 1:
        raise RequestInvalid(
            f"input {spec.name!r} takes {prod(sizes)} strings, a body without JSON is one", tensor=spec.name
        )
    length = np.frombuffer(len(body).to_bytes(4, "little"), np.uint8)
    return Tensor(spec.name, spec.dtype, sizes, np.concatenate((length, np.frombuffer(body, np.uint8))))
