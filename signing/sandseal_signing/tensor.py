"""A tensor as a bundle's manifest describes it: its name, data type and shape."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sandseal_signing.names import is_identifier
from sandseal_signing.schema import Node

MAX_RANK = 8
MAX_AXIS = 2**31 - 1


class DataType(StrEnum):
    """The Open Inference Protocol's tensor data types."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"


_DATA_TYPES = "one of " + ", ".join(DataType)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor's name, data type and shape; a string axis is free, and the same name is the same size."""

    name: str
    dtype: DataType
    shape: tuple[int | str, ...]

    @property
    def batched(self) -> bool:
        """Whether axis 0 counts rows, that is, is called `batch`."""
        return bool(self.shape) and self.shape[0] == "batch"

    def misfit(self, other: "TensorSpec") -> str | None:
        """What keeps one of these from ever being given where `other` is taken; None: nothing does."""
        if self.dtype is not other.dtype:
            return f"{self.dtype} where {other.dtype} is taken"
        sizes = zip(self.shape, other.shape, strict=False)
        differ = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes)
        if differ or len(self.shape) != len(other.shape):
            return f"shape {list(self.shape)} where {list(other.shape)} is taken"
        return None


def read_tensors(node: Node, name: str, beside: Callable[[Node], None] = lambda _: None) -> tuple[TensorSpec, ...]:
    """Read a list of tensors; the node's own error class is raised.

    Args:
        beside: takes what else stands in each tensor's object.
    """
    specs = tuple(_tensor(child, beside) for child in node.children(name))
    if not specs:
        node.fail(name, "must hold at least one tensor")
    if len({spec.name for spec in specs}) != len(specs):
        node.fail(name, "holds a tensor name twice")
    return specs


def _tensor(node: Node, beside: Callable[[Node], None]) -> TensorSpec:
    beside(node)
    spec = TensorSpec(
        name=node.text("name", valid=lambda text: 0 < len(text) <= 255, rule="1 to 255 characters"),
        dtype=DataType(node.text("dtype", valid=DataType.__members__.__contains__, rule=_DATA_TYPES)),
        shape=_shape(node),
    )
    node.close()
    return spec


def _shape(node: Node) -> tuple[int | str, ...]:
    shape = node.take("shape")
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        node.fail("shape", f"must be a list of at most {MAX_RANK} axes")
    for i, axis in enumerate(shape):
        named = isinstance(axis, str) and is_identifier(axis)
        if not named and not (type(axis) is int and 0 <= axis <= MAX_AXIS):
            node.fail("shape", f"axis {i} must be a size from 0 to {MAX_AXIS} or the name of a free axis")
        if axis == "batch" and i:
            node.fail("shape", f"axis {i} cannot be 'batch', which is only ever the first axis")
    return tuple(shape)
