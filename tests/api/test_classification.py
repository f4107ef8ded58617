"""The largest values of outputs, as Triton's clients read them."""

import numpy as np
import pytest

from api.double import spec
from sandseal_host.api.classification import check_classes, classify
from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import KINDS, Tensor, unpack_bytes
from sandseal_signing.tensor import DataType


def classes(values, dtype="FP32", k=2, *, batched=True):
    kind = DataType(dtype)
    data = np.array(values, KINDS[kind].numpy)
    found = classify(Tensor("y", kind, data.shape, data), k, batched=batched)
    assert found.dtype is DataType.BYTES
    return found.shape, [text.decode() for text in unpack_bytes(found)]


def test_each_row_has_its_own():
    assert classes([[1, 3, 2], [9, 8, 7]]) == ((2, 2), ["3.000000:1", "2.000000:2", "9.000000:0", "8.000000:1"])


def test_rows_of_more_axes_are_one_row_of_values():
    assert classes([[[1, 2], [4, 3]]]) == ((1, 2), ["4.000000:2", "3.000000:3"])


def test_without_a_batch_axis_all_values_are_one_row():
    assert classes([[1, 3], [2, 4]], batched=False) == ((2,), ["4.000000:3", "3.000000:1"])


def test_no_more_than_there_are():
    assert classes([[1, 2]], k=50) == ((1, 2), ["2.000000:1", "1.000000:0"])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_nothing_to_choose_from(shape):
    assert classes(np.zeros(shape))[1] == []
    assert classes(np.zeros(shape))[0][0] == shape[0]


def test_equal_values_in_their_order_and_nan_last():
    assert classes([[np.nan, 1, 5, 5, -np.inf]], k=5)[1] == [
        "5.000000:2", "5.000000:3", "1.000000:1", "-inf:4", "nan:0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [
        ("INT8", [-128, 127], ["127:1", "-128:0"]),
        ("UINT8", [0, 255], ["255:1", "0:0"]),
        ("INT64", [-(2**63), 2**63 - 1], [f"{2**63 - 1}:1", f"-{2**63}:0"]),
        ("UINT64", [0, 2**64 - 1], [f"{2**64 - 1}:1", "0:0"]),
        ("FP16", [0.5, 1], ["1.000000:1", "0.500000:0"]),
        ("FP64", [0.5, 1], ["1.000000:1", "0.500000:0"]),
        ("BF16", [0x3F80, 0x4000], ["2.000000:1", "1.000000:0"]),
    ],
)
def test_types(dtype, values, found):
    assert classes([values], dtype)[1] == found


@pytest.mark.parametrize("dtype", ["BYTES", "BOOL"])
def test_types_without_order(dtype):
    assert check_classes(spec("y", dtype, "batch", 3), 0) == 0
    with pytest.raises(RequestInvalid, match=dtype):
        check_classes(spec("y", dtype, "batch", 3), 1)
