"""Inputs that an export is traced and compared with: the publisher's own, or random ones."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from sandseal_sdk.errors import InputInvalid
from sandseal_sdk.plugin.values import numpy_type
from sandseal_signing.tensor import DataType, TensorSpec

_WRITTEN = re.compile(r"(?P<name>[A-Za-z_]\w*):(?P<dtype>[A-Z0-9]+):(?P<axes>[\w=,]*)\Z", re.ASCII)
_AXIS = re.compile(r"(?P<size>[1-9]\d*)\Z|(?P<name>[A-Za-z_]\w*)(=(?P<example>[1-9]\d*))?\Z", re.ASCII)
_EXAMPLE_ROWS, _EXAMPLE_SIZE = 2, 16  # 0 and 1 would be taken for fixed sizes when a graph is traced

Arrays = dict[str, NDArray[np.generic]]


def read_input(written: str) -> tuple[TensorSpec, dict[str, int]]:
    """An input as the command line has it, and the sizes that its free axes are tried with.

    Args:
        written: `NAME:DTYPE:AXES`, each axis a size, a name, or `name=size` where the size is only tried, as in
            `image:FP32:batch,3,height=224,width=224`.

    Raises:
        InputInvalid: of another form.
    """
    match = _WRITTEN.match(written)
    axes = [_AXIS.match(axis) for axis in match["axes"].split(",") if axis] if match else []
    if match is None or match["dtype"] not in DataType.__members__ or not all(axes):
        raise InputInvalid(f"{written!r} is not NAME:DTYPE:AXES", hint="for example image:FP32:batch,3,224,224")
    sizes: dict[str, int] = {}
    shape: list[int | str] = []
    for axis in filter(None, axes):
        shape.append(int(axis["size"]) if axis["size"] else axis["name"])
        if axis["name"]:
            sizes[axis["name"]] = int(axis["example"] or example_size(axis["name"]))
    return TensorSpec(match["name"], DataType(match["dtype"]), tuple(shape)), sizes


def example_size(axis: str) -> int:
    """What a free axis is tried with where nobody says."""
    return _EXAMPLE_ROWS if axis == "batch" else _EXAMPLE_SIZE


def random_arrays(inputs: Sequence[TensorSpec], sizes: Mapping[str, int], seed: int) -> Arrays:
    """Random inputs: standard normal numbers; whole numbers are 0 or 1, which masks and indices of any range take.

    Raises:
        InputInvalid: a BYTES input, for which nothing sensible is random.
    """
    source = np.random.default_rng(seed)
    arrays: Arrays = {}
    for spec in inputs:
        shape = [axis if isinstance(axis, int) else sizes[axis] for axis in spec.shape]
        if spec.dtype is DataType.BYTES:
            raise InputInvalid(
                f"input {spec.name!r} takes text, of which there is no random one", hint="give --samples"
            )
        kind = numpy_type(spec.dtype)
        drawn = source.standard_normal(shape) if kind.kind == "f" else source.integers(0, 2, shape)
        arrays[spec.name] = drawn.astype(kind)
    return arrays


def random_samples(inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> list[Arrays]:
    """Two sets of random inputs, of other sizes: an axis that a graph took for fixed shows."""
    larger = {axis: size + (axis == "batch") for axis, size in sizes.items()}
    return [random_arrays(inputs, each, seed) for seed, each in enumerate((sizes, larger))]


def read_arrays(path: Path, inputs: Sequence[TensorSpec]) -> Arrays:
    """A publisher's own inputs, out of an .npz file with an array for each.

    Raises:
        InputInvalid: unreadable, or without one of the inputs.
    """
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {spec.name: file[spec.name].astype(numpy_type(spec.dtype)) for spec in inputs}
    except (OSError, ValueError, BadZipFile) as error:
        raise InputInvalid(f"{path} cannot be read as .npz: {error}") from None
    except KeyError as error:
        raise InputInvalid(f"{path}: {error.args[0]}", hint="name the arrays as the model's inputs") from None
