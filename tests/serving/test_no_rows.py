"""What comes of no rows."""

import numpy as np
import pytest

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.no_rows import no_rows
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType, TensorSpec

TAKEN = (TensorSpec("x", DataType.FP32, ("batch", "n")),)
PAIRS = (TensorSpec("pairs", DataType.FP32, ("batch", "n", "n", "m")),)


def without_rows(size: int) -> tuple[Tensor, ...]:
    return (Tensor("x", DataType.FP32, (0, size), np.empty((0, size), np.float32)),)


def test_free_axes_are_as_in_the_inputs_or_none() -> None:
    (pairs,) = no_rows(without_rows(7), TAKEN, PAIRS)
    assert pairs.shape == pairs.data.shape == (0, 7, 7, 0)


def test_axes_that_no_array_can_have_are_refused() -> None:
    given = (TensorSpec("pairs", DataType.FP32, ("batch", "n", "n")),)
    with pytest.raises(RequestInvalid, match=r"'pairs' would have shape \[0, 2147483647, 2147483647\]"):
        no_rows(without_rows(2**31 - 1), TAKEN, given)
