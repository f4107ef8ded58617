"""Tensors that lie in a request's body as they are: views, not copies.

Binary tensors follow the JSON without padding, little-endian and row-major, in the order of the JSON's inputs.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import KINDS, Tensor, check_bytes_elements
from sandseal_signing.tensor import DataType, TensorSpec


@dataclass(frozen=True, slots=True)
class BinarySlot:
    """Where in a body a tensor lies.

    Args:
        spec: its name and data type.
        shape: checked against the spec.
        start: its first byte.
        size: its bytes.

    Raises:
        RequestInvalid: the size is not what the shape takes.
    """

    spec: TensorSpec
    shape: tuple[int, ...]
    start: int
    size: int

    def __post_init__(self) -> None:
        dtype, bytes_each = self.spec.dtype, KINDS[self.spec.dtype].size
        wanted = prod(self.shape) * bytes_each if bytes_each else max(self.size, 0)  # BYTES have no fixed size
        if self.size != wanted:
            raise RequestInvalid(
                f"input {self.spec.name!r} has {self.size} bytes, but {dtype} {list(self.shape)} takes {wanted}",
                tensor=self.spec.name, got=self.size, wanted=wanted,
            )  # fmt: skip

    def view(self, body: memoryview) -> Tensor:
        """The tensor in `body`, which is long enough; copied only where it does not lie as its type must.

        Raises:
            RequestInvalid: BYTES elements do not fill it, or a BOOL is neither 0 nor 1.
        """
        spec, dtype = self.spec, self.spec.dtype
        if dtype is DataType.BYTES:
            part = body[self.start : self.start + self.size]
            check_bytes_elements(spec.name, part, prod(self.shape))
            return Tensor(spec.name, dtype, self.shape, np.frombuffer(part, np.uint8))
        data = np.ndarray(self.shape, KINDS[dtype].numpy, body, self.start)
        if dtype is DataType.BOOL and (data.view(np.uint8) > 1).any():
            raise RequestInvalid(f"input {spec.name!r}: a BOOL is one byte, 0 or 1", tensor=spec.name)
        return Tensor(spec.name, dtype, self.shape, data if data.flags.aligned else data.copy())


def raw_input(spec: TensorSpec, body: memoryview) -> Tensor | BinarySlot:
    """The input that a body without any JSON is.

    The batch axis is 1, one other axis may be free and follows from the length; BYTES are the body as one element.

    Raises:
        RequestInvalid: the spec or the length does not allow that.
    """
    shape = [1 if axis == "batch" else axis for axis in spec.shape]
    free = [at for at, axis in enumerate(shape) if isinstance(axis, str)]
    if len(free) > 1:
        raise RequestInvalid(
            f"input {spec.name!r} has {len(free)} free axes, which the length alone does not tell",
            hint="send the input with its shape to /v2/models/{model}/infer",
            tensor=spec.name,
        )
    each = prod(axis for axis in shape if isinstance(axis, int)) * KINDS[spec.dtype].size
    for at in free:
        shape[at] = len(body) // each if each else 1
    sizes = tuple(axis for axis in shape if isinstance(axis, int))
    return _one_element(spec, sizes, body) if spec.dtype is DataType.BYTES else BinarySlot(spec, sizes, 0, len(body))


def _one_element(spec: TensorSpec, shape: tuple[int, ...], body: memoryview) -> Tensor:
    if prod(shape) != 1:
        raise RequestInvalid(
            f"input {spec.name!r} takes {prod(shape)} strings, a body without JSON is one", tensor=spec.name
        )
    length = np.frombuffer(len(body).to_bytes(4, "little"), np.uint8)
    return Tensor(spec.name, spec.dtype, shape, np.concatenate((length, np.frombuffer(body, np.uint8))))
