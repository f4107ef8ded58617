"""The protocol's classification extension: the largest values of an output instead of the output.

Each is a string, `value:index`; a bundle has no file of labels, so none follows. The strings stand in Triton's form.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandseal_host.api.inference import Plan
from sandseal_host.api.json_tensor import from_bf16
from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import Tensor, pack_bytes
from sandseal_signing.tensor import DataType, TensorSpec


def check_classes(spec: TensorSpec, classes: int) -> int:
    """How many classes of an output are wanted; 0 for none, which is the output itself.

    Raises:
        RequestInvalid: a negative number, or any of an output that holds BYTES or BOOL.
    """
    if classes < 0:
        raise RequestInvalid(f"output {spec.name!r}: 'classification' must be 0 or more", tensor=spec.name)
    if classes and spec.dtype in (DataType.BYTES, DataType.BOOL):
        raise RequestInvalid(
            f"output {spec.name!r} is {spec.dtype}, of which no value is the largest", tensor=spec.name
        )
    return classes


def chosen(plan: Plan, outputs: Sequence[Tensor], batched: Collection[str]) -> Iterable[tuple[Tensor, bool]]:
    """The outputs that a plan wants, each as it is or as its classes, and whether as binary.

    Args:
        outputs: all of them, in the model's order.
        batched: names of those whose axis 0 is the batch.
    """
    if plan.outputs is None:
        return zip(outputs, repeat(plan.binary))
    wanted = [(tensor, plan.outputs[tensor.name]) for tensor in outputs if tensor.name in plan.outputs]
    return [
        (classify(tensor, want.classes, batched=tensor.name in batched) if want.classes else tensor, want.binary)
        for tensor, want in wanted
    ]


def classify(tensor: Tensor, classes: int, *, batched: bool) -> Tensor:
    """The largest values, BYTES [batch, k], or [k] of an output without a batch axis; k is at most its elements.

    Of equal values the one of the lower index comes first; NaN comes last.

    Args:
        classes: how many are wanted, 1 or more.
        batched: whether axis 0 is the batch.
    """
    values = from_bf16(tensor.data) if tensor.dtype is DataType.BF16 else tensor.data
    rows = values.reshape(tensor.shape[0], -1) if batched and values.size else values.reshape(1, -1)
    best = np.argsort(_descending(rows), axis=1, kind="stable")[:, :classes]
    form = "%d:%d" if rows.dtype.kind in "iu" else "%f:%d"
    texts = [form % (row[at], at) for row, order in zip(rows, best, strict=True) for at in order]
    shape = (tensor.shape[0], best.shape[1]) if batched else (best.shape[1],)
    return Tensor(tensor.name, DataType.BYTES, shape, pack_bytes([text.encode() for text in texts]))


def _descending(values: NDArray[Any]) -> NDArray[Any]:
    """Values whose ascending order is the descending one of these; of integers too, which may have no negative."""
    return ~values if values.dtype.kind in "iu" else -values
