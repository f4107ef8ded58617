"""Arrays to tensors and back."""

import numpy as np
import pytest

from sandseal_sdk.errors import AnswerInvalid, TensorInvalid
from sandseal_sdk.hosts.tensors import decode_tensors, encode_tensor

KINDS = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def through(array):
    """An array that was sent and came back."""
    described, data = encode_tensor("x", array)
    return decode_tensors({"outputs": [described]}, memoryview(bytes(data)))["x"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_numbers(kind, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    back = through(array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)
    assert back.flags.writeable


def test_other_orders_and_strides():
    array = np.arange(12, dtype=">i4").reshape(3, 4)
    np.testing.assert_array_equal(through(array), array)
    np.testing.assert_array_equal(through(array.T), array.T)
    np.testing.assert_array_equal(through(array[::-1, ::2]), array[::-1, ::2])


def test_contiguous_inputs_are_not_copied():
    array = np.ones((2, 3), np.float32)
    assert np.shares_memory(np.frombuffer(encode_tensor("x", array)[1], np.uint8), array)


def test_bytes_and_text():
    array = np.array([[b"", "ä"], ["b" * 300, b"\xff"]], object)
    assert through(array).tolist() == [[b"", "ä".encode()], [b"b" * 300, b"\xff"]]
    assert through(np.array(["one", "two"])).tolist() == [b"one", b"two"]
    assert through(np.empty((0, 2), object)).shape == (0, 2)


def test_bfloat16():
    described = {"name": "y", "datatype": "BF16", "shape": [2], "parameters": {"binary_data_size": 4}}
    data = (np.array([1.5, -2], np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    assert decode_tensors({"outputs": [described]}, memoryview(data))["y"].tolist() == [1.5, -2.0]
    ml_dtypes = pytest.importorskip("ml_dtypes")
    described, sent = encode_tensor("x", np.array([1.5, -2], ml_dtypes.bfloat16))
    assert (described["datatype"], bytes(sent)) == ("BF16", data)


def test_json_outputs():
    outputs = [
        {"name": "a", "datatype": "INT64", "shape": [1, 2], "data": [[1, 2**60]]},
        {"name": "b", "datatype": "BYTES", "shape": [1], "data": ["ä"]},
        {"name": "c", "datatype": "BF16", "shape": [1], "data": [1.5]},
    ]
    arrays = decode_tensors({"outputs": outputs}, memoryview(b""))
    assert arrays["a"].tolist() == [[1, 2**60]]
    assert arrays["a"].dtype == np.int64
    assert arrays["b"].tolist() == ["ä".encode()]
    assert arrays["c"].tolist() == [1.5]


@pytest.mark.parametrize("array", [np.array([1j]), np.array(["2020"], "M8[Y]"), np.array([None, 1], object)])
def test_what_no_datatype_carries(array):
    with pytest.raises(TensorInvalid) as refused:
        encode_tensor("x", array)
    assert "'x'" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    "output",
    [
        {},
        {"name": "y", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 5}},
        {"name": "y", "datatype": "FP32", "shape": [3], "parameters": {"binary_data_size": 8}},
        {"name": "y", "datatype": "FP99", "shape": [2], "parameters": {"binary_data_size": 8}},
        {"name": "y", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 3}},
        {"name": "y", "datatype": "BYTES", "shape": [3], "parameters": {"binary_data_size": 8}},
        {"name": "y", "datatype": "BYTES", "shape": [1 << 62], "parameters": {"binary_data_size": 8}},
        {"name": "y", "datatype": "BYTES", "shape": [1], "data": [1]},
        {"name": "y", "datatype": "FP32", "shape": [2], "data": ["x"]},
        "text",
    ],
)
def test_answers_that_do_not_hold_together(output):
    with pytest.raises(AnswerInvalid):
        decode_tensors({"outputs": [output]}, memoryview(bytes(8)))


@pytest.mark.parametrize(("shape", "data"), [([2], b"\1\0\0\0a"), ([1], b"\2\0\0\0a"), ([1], b"\1\0\0\0ab")])
def test_texts_are_as_many_and_as_long_as_is_said(shape, data):
    output = {"name": "y", "datatype": "BYTES", "shape": shape, "parameters": {"binary_data_size": len(data)}}
    with pytest.raises(AnswerInvalid):
        decode_tensors({"outputs": [output]}, memoryview(data))
