"""A model's public signature, as requests of any form are checked against it."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import check_shape
from sandseal_signing.manifest import Manifest
from sandseal_signing.tensor import MAX_RANK, TensorSpec

T = TypeVar("T")

_LARGEST_AXIS = 2**31 - 1
_MAX_ELEMENTS = 2**31


class Signature:
    """The inputs and outputs that clients know, whatever the plugins make of them.

    Args:
        manifest: of the model.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.inputs = {spec.name: spec for spec in manifest.inputs}
        self.outputs = {spec.name: spec for spec in manifest.outputs}

    def input(self, name: str) -> TensorSpec:
        """The spec of an input.

        Raises:
            RequestInvalid: there is none of this name.
        """
        spec = self.inputs.get(name)
        if spec is None:
            raise RequestInvalid(f"the model has no input {name[:80]!r}", tensor=name[:80], inputs=list(self.inputs))
        return spec

    def output(self, name: str) -> TensorSpec:
        """The spec of an output.

        Raises:
            RequestInvalid: there is none of this name.
        """
        spec = self.outputs.get(name)
        if spec is None:
            raise RequestInvalid(f"the model has no output {name[:80]!r}", tensor=name[:80], outputs=[*self.outputs])
        return spec

    def in_order(self, found: Mapping[str, T]) -> tuple[T, ...]:
        """What was found for each input, in the model's order.

        Raises:
            RequestInvalid: inputs are missing.
        """
        if len(found) != len(self.inputs):
            missing = [name for name in self.inputs if name not in found]
            raise RequestInvalid(f"the request lacks the inputs {missing}", missing=missing)
        return tuple([found[name] for name in self.inputs])


def check_type(spec: TensorSpec, dtype: str) -> None:
    """See that a request names the type that the model takes.

    Raises:
        RequestInvalid: another one.
    """
    if dtype != spec.dtype:
        raise RequestInvalid(
            f"input {spec.name!r} has datatype {dtype[:20]!r}, but the model takes {spec.dtype}",
            tensor=spec.name, got=dtype[:20], wanted=spec.dtype,
        )  # fmt: skip


def read_shape(spec: TensorSpec, shape: Sequence[object], axes: dict[str, int]) -> tuple[int, ...]:
    """A shape that a request names, safe to multiply out and to hand to NumPy.

    Args:
        axes: collects the sizes of named axes across one request's tensors.

    Raises:
        RequestInvalid: it is no shape, too large, or not as the spec says.
    """
    if len(shape) > MAX_RANK:  # first: to multiply out a hundred thousand axes takes half a minute
        raise RequestInvalid(
            f"input {spec.name!r} has {len(shape)} axes, and no tensor over {MAX_RANK}", tensor=spec.name
        )
    sizes = tuple([size for size in shape if type(size) is int and 0 <= size <= _LARGEST_AXIS])
    if len(sizes) != len(shape):
        raise RequestInvalid(
            f"input {spec.name!r}: a shape is a list of integers from 0 to {_LARGEST_AXIS}", tensor=spec.name
        )
    if prod([size or 1 for size in sizes]) > _MAX_ELEMENTS:
        raise RequestInvalid(
            f"input {spec.name!r}: shape {list(shape)} has more elements than a request can hold", tensor=spec.name
        )
    check_shape(spec, sizes, axes)
    return sizes
