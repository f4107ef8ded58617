"""Two sets of tensors compared, and the first difference in words."""

from collections.abc import Sequence

import numpy as np

from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.plugin.values import Value
from sandseal_signing.tensor import DataType, TensorSpec


def differences(
    got: Sequence[Value], wanted: Sequence[Value | None], spec: PluginSpec, tolerance: float, who: str
) -> str:
    """Where a plugin's outputs are not the wanted ones, in words; empty when they are.

    Args:
        got: all outputs, in the order of the spec.
        wanted: likewise; None is not compared.
        tolerance: relative and absolute, of floating-point outputs.
        who: whose wish it is, for the words.
    """
    found = []
    for value, other, tensor in zip(got, wanted, spec.outputs, strict=True):
        if other is not None and (why := _difference(value, other, tensor, tolerance)):
            found.append(f"output {tensor.name!r} {why} ({who})")
    return "; ".join(found)


def _difference(got: Value, wanted: Value, tensor: TensorSpec, tolerance: float) -> str:
    if got.shape != wanted.shape:
        return f"has shape {list(got.shape)}, not {list(wanted.shape)}"
    if tensor.dtype is DataType.BYTES:
        pairs = enumerate(zip(got.data, wanted.data, strict=True))
        return next((f"[{i}] is {mine!r}, not {theirs!r}" for i, (mine, theirs) in pairs if mine != theirs), "")
    mine, theirs = np.asarray(got.data), np.asarray(wanted.data)
    inexact = mine.dtype.kind == "f"
    same = np.isclose(mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True) if inexact else mine == theirs
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{list(at)} is {mine[at]}, not {theirs[at]}; {int((~same).sum())} of {same.size} differ"
