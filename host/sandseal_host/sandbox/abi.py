"""ABI v1 in bytes: one call laid out in guest memory, and its outputs checked and copied out (sdk/abi/abi-v1.md)."""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sandseal_host.errors import PluginBadOutput, RequestInvalid
from sandseal_host.sandbox import raw
from sandseal_host.sandbox.memory import GuestMemory
from sandseal_host.tensors import KINDS, Tensor, check_bytes_elements, check_shape
from sandseal_signing.stage import StageSpec
from sandseal_signing.tensor import MAX_RANK, DataType, TensorSpec

VERSION = 1
ALIGNMENT = 16
MAX_ELEMENTS = 65_536  # of a BYTES output: the host walks them one by one

CALL = struct.Struct("<16I")
TENSOR = struct.Struct("<4IQ8q2I")
_REFUSAL = struct.Struct("<2I")
_REFUSAL_AT = 32  # sandseal_call.error
_FREE = -1

FIRST, LAST = 1, 2  # flags of a stream's calls

Allocate = Callable[[Any, np.dtype[Any]], NDArray[Any]]
"""Makes an array of a shape and a data type, for an output to be copied to."""


class _Described(NamedTuple):
    """What a tensor's descriptor says in every call; `axes` are the ones that the host sets, padded to eight."""

    spec: TensorSpec
    onnx: int
    rank: int
    axes: tuple[int, ...]
    name_at: int
    name_len: int


class Layout(NamedTuple):
    """One call's parts, with where each input's data goes and how many bytes all of it takes."""

    inputs: Sequence[Tensor]
    parameters: bytes
    data_at: Sequence[int]
    size: int


class StageForm:
    """How a stage's calls look in guest memory: one block, whose addresses count from its start.

    First the call struct, the descriptors, the names, the config and the parameters (written at once); then each
    input's data. Every part is aligned to 16 bytes.

    Args:
        spec: the signed stage.
        label: names the plugin in errors.
    """

    def __init__(self, spec: StageSpec, label: str) -> None:
        self.spec, self._label = spec, label
        self._outputs_at = CALL.size + TENSOR.size * len(spec.inputs)
        at = self._outputs_at + TENSOR.size * len(spec.outputs)
        fixed = bytearray()
        tensors = []
        for tensor in (*spec.inputs, *spec.outputs):
            tensors.append(_described(tensor, at + len(fixed)))
            fixed += _padded(tensor.name.encode())
        self._inputs, self._outputs = tensors[: len(spec.inputs)], tensors[len(spec.inputs) :]
        self._config_at = at + len(fixed)
        self._fixed = bytes(fixed) + _padded(spec.config)
        self._params_at = at + len(self._fixed)

    def lay_out(self, inputs: Sequence[Tensor], parameters: bytes) -> tuple[Layout, dict[str, int]]:
        """Check a call's inputs against the spec and find room for them; also gives the sizes of the named axes.

        Raises:
            RequestInvalid: count, name, dtype, shape or data size is another than the spec's.
        """
        if len(inputs) != len(self._inputs):
            raise RequestInvalid(f"the stage takes {len(self._inputs)} tensors, not {len(inputs)}")
        free: dict[str, int] = {}
        at, data_at = self._params_at + _align(len(parameters)), []
        for wanted, tensor in zip(self._inputs, inputs, strict=True):
            _check_input(wanted.spec, tensor, free)
            data_at.append(at)
            at += _align(tensor.nbytes)
        return Layout(inputs, parameters, data_at, at), free

    def write(self, memory: GuestMemory, block: int, layout: Layout, flags: int = 0) -> None:
        """Write a call, with its flags, into the guest's block, whose room has been checked."""
        memory.write(block, b"".join(self._head(block, layout, flags)))
        for tensor, at in zip(layout.inputs, layout.data_at, strict=True):
            data = np.ascontiguousarray(tensor.data)
            raw.copy(memory.base + block + at, address_of_array(data), data.nbytes)

    def _head(self, block: int, layout: Layout, flags: int) -> Iterable[bytes]:
        spec, parameters = self.spec, layout.parameters
        yield CALL.pack(
            len(spec.inputs), block + CALL.size, len(spec.outputs), block + self._outputs_at,
            block + self._params_at, len(parameters), block + self._config_at, len(spec.config),
            0, 0, flags, *(0,) * 5,
        )  # fmt: skip
        for its, tensor, at in zip(self._inputs, layout.inputs, layout.data_at, strict=True):
            axes = tensor.shape + its.axes[its.rank :]
            yield TENSOR.pack(
                its.onnx, its.rank, block + at, 0, tensor.nbytes, *axes, block + its.name_at, its.name_len
            )
        for its in self._outputs:
            yield TENSOR.pack(its.onnx, its.rank, 0, 0, 0, *its.axes, block + its.name_at, its.name_len)
        yield self._fixed
        yield parameters

    def read_outputs(
        self, memory: GuestMemory, block: int, free: dict[str, int], allocate: Allocate = np.empty
    ) -> tuple[Tensor, ...]:
        """Check the outputs that the guest described and copy them out.

        Args:
            memory: as it is after the call.
            block: where the call lies; pointers that the guest may have changed are not followed.
            free: sizes of the named axes of the inputs.
            allocate: where they are copied to.

        Raises:
            PluginBadOutput: a descriptor breaks the ABI or the stage's spec.
        """
        copied = memory.read(block + self._outputs_at, TENSOR.size * len(self._outputs))
        tensors, total = [], 0
        for its, fields in zip(self._outputs, TENSOR.iter_unpack(copied), strict=True):
            dtype, rank, data, flags, size, *axes = fields[: 5 + MAX_RANK]
            output = _Output(self._label, its, dtype, rank, data, flags, size, tuple(axes))
            output.check(memory, free)
            total += output.size
            if total > memory.size:
                raise output.bad(f"the outputs together have more bytes than the memory's {memory.size}")
            tensors.append(output.copy(memory, allocate))
        return tuple(tensors)


@dataclass(slots=True)
class _Output:
    """One output as the guest described it, on the host's copy of the descriptor."""

    label: str
    its: _Described
    dtype: int
    rank: int
    data: int
    flags: int
    size: int
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.axes[: self.its.rank]

    def bad(self, why: str) -> PluginBadOutput:
        name = self.its.spec.name
        return PluginBadOutput(f"plugin {self.label!r}, output {name!r}: {why}", plugin=self.label, output=name)

    def check(self, memory: GuestMemory, free: dict[str, int]) -> None:
        """Everything that can be checked without reading the data."""
        kind, shape = KINDS[self.its.spec.dtype], self.shape
        if (self.dtype, self.rank, self.flags) != (kind.onnx, self.its.rank, 0):
            raise self.bad(
                f"has dtype {self.dtype}, rank {self.rank}, flags {self.flags}, not {kind.onnx}, {self.its.rank}, 0"
            )
        for size, axis in zip(shape, self.its.spec.shape, strict=True):
            wanted = axis if isinstance(axis, int) else free.setdefault(axis, size)
            if size != wanted or size < 0:
                raise self.bad(f"has shape {list(shape)}, not {list(self.its.spec.shape)} with {free}")
        elements = prod(shape)
        if kind.size and self.size != elements * kind.size:
            raise self.bad(f"has byte_len {self.size}, but {list(shape)} takes {elements * kind.size}")
        if not kind.size and elements > MAX_ELEMENTS:
            raise self.bad(f"has {elements} BYTES elements, over {MAX_ELEMENTS}")
        if self.size and (not self.data or self.data % (kind.size or 1)):
            raise self.bad(f"has its data at {self.data:#x}: null, or not aligned to {kind.size} bytes")
        if self.size and not memory.holds(self.data, self.size):
            raise self.bad(f"has {self.size} bytes at {self.data:#x}, beyond the memory's {memory.size}")

    def copy(self, memory: GuestMemory, allocate: Allocate) -> Tensor:
        """The output as a tensor that owns its memory; checks what only the data can show wrong."""
        spec, flat = self.its.spec, self.its.spec.dtype is DataType.BYTES
        try:
            array = allocate(self.size if flat else self.shape, KINDS[spec.dtype].numpy)
        except ValueError as error:  # axes that no array can have, next to one of size 0
            raise self.bad(f"has shape {list(self.shape)}: {error}") from error
        raw.copy(address_of_array(array), memory.base + self.data, self.size)
        if flat:
            try:
                check_bytes_elements(spec.name, array.data, prod(self.shape))
            except RequestInvalid as error:
                raise self.bad(error.message) from error
        elif spec.dtype is DataType.BOOL and (array.view(np.uint8) > 1).any():
            raise self.bad("has a BOOL element that is neither 0 nor 1")
        return Tensor(spec.name, spec.dtype, self.shape, array)


def read_refusal(memory: GuestMemory, block: int) -> tuple[int, int]:
    """Address and length of the text in `call.error`, as the guest set them."""
    at, length = _REFUSAL.unpack(memory.read(block + _REFUSAL_AT, _REFUSAL.size))
    return at, length


def _check_input(spec: TensorSpec, tensor: Tensor, free: dict[str, int]) -> None:
    if tensor.name != spec.name or tensor.dtype is not spec.dtype:
        raise RequestInvalid(
            f"tensor {tensor.name!r} is {tensor.dtype}, but the stage takes {spec.name!r} as {spec.dtype} here",
            tensor=tensor.name,
        )
    check_shape(spec, tensor.shape, free)
    size = KINDS[spec.dtype].size
    if size and tensor.nbytes != prod(tensor.shape) * size:
        raise RequestInvalid(
            f"tensor {tensor.name!r} has {tensor.nbytes} bytes, not those of shape {list(tensor.shape)}",
            tensor=tensor.name,
        )


def _described(spec: TensorSpec, name_at: int) -> _Described:
    axes = [axis if isinstance(axis, int) else _FREE for axis in spec.shape]
    padded = (*axes, *(0,) * (MAX_RANK - len(axes)))
    return _Described(spec, KINDS[spec.dtype].onnx, len(spec.shape), padded, name_at, len(spec.name.encode()))


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(data: bytes) -> bytes:
    return data.ljust(_align(len(data)), b"\0")


def address_of_array(array: NDArray[Any]) -> int:
    """Where an array's data lies."""
    at: int = array.__array_interface__["data"][0]
    return at
