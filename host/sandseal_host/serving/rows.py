"""Rows of tensors, divided among several requests and put together again."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat
from math import prod

import numpy as np
from numpy.typing import NDArray

from sandseal_host.errors import ModelFailed
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType, TensorSpec


def rows_of(inputs: Sequence[Tensor], specs: Sequence[TensorSpec]) -> int:
    """How many rows inputs have, in the order of their specs; 1 where none counts them."""
    return next((tensor.rows for tensor, spec in zip(inputs, specs, strict=True) if spec.batched), 1)


def split_rows(inputs: Sequence[Tensor], specs: Sequence[TensorSpec], most: int) -> Iterator[tuple[Tensor, ...]]:
    """The inputs of requests of at most `most` rows each, in order; what does not count rows goes into every one.

    Each is made when it is asked for: rows without elements cost whoever sends them nothing, however many they are.

    Args:
        inputs: in the order of their specs; those that count rows have equally many, and at least one.
    """
    if rows_of(inputs, specs) <= most:
        return iter([tuple(inputs)])
    parts = [
        _parts(tensor, most) if spec.batched else repeat(tensor) for tensor, spec in zip(inputs, specs, strict=True)
    ]
    return zip(*parts, strict=False)


def join_rows(parts: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """The outputs of such requests as those of one; each counts rows.

    Args:
        parts: in order; every one has the same tensors.

    Raises:
        ModelFailed: the parts of an output have different shapes behind their rows.
    """
    return tuple(parts[0]) if len(parts) == 1 else tuple(map(_joined, zip(*parts, strict=True)))


def _parts(tensor: Tensor, most: int) -> Iterator[Tensor]:
    rows, rest = tensor.rows, tensor.shape[1:]
    texts, at = tensor.dtype is DataType.BYTES, 0
    for start, end in pairwise(chain(range(0, rows, most), [rows])):
        first, last = start, end
        if texts:
            first, at = at, _after(tensor.data, at, (end - start) * prod(rest))
            last = at
        yield Tensor(tensor.name, tensor.dtype, (end - start, *rest), tensor.data[first:last])


def _after(texts: NDArray[np.uint8], at: int, count: int) -> int:
    """Where the next element begins after so many BYTES elements."""
    view = texts.data
    for _ in range(count):
        at += 4 + int.from_bytes(view[at : at + 4], "little")
    return at


def _joined(parts: Sequence[Tensor]) -> Tensor:
    first = parts[0]
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        raise ModelFailed(
            f"output {first.name!r} has rows of the shapes {sorted(map(list, shapes))}, which are not one tensor's",
            tensor=first.name,
        )
    shape = (sum(part.shape[0] for part in parts), *first.shape[1:])
    return Tensor(first.name, first.dtype, shape, np.concatenate([part.data for part in parts]))
