import numpy as np
import pytest

from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_sdk.plugin.values import Value
from sandseal_sdk.testing.oracle import Oracle

SOURCE = """
def stage(x, texts, one, table):
    if len(one) == 0:
        raise ValueError("one is empty")
    x *= 2
    return x, texts + [one, table]
"""
INPUTS = [("x", "FP32", ["n"]), ("texts", "BYTES", ["n"]), ("one", "BYTES", [1])]
OUTPUTS = [("y", "FP64", ["n"]), ("all", "BYTES", ["k", 2])]


@pytest.fixture
def oracle(make_plugin):
    folder = make_plugin("python", SOURCE, INPUTS, OUTPUTS, rest='imports = ["asset"]\nassets = ["t.bin"]')
    return Oracle(read_plugin_spec(folder), {"t.bin": b"\xfe"})


def test_the_function_sees_one_character_per_byte(oracle):
    x = np.array([1, 2], np.float32)
    y, texts = oracle.call([Value((2,), x), Value((2,), ["\u00e4".encode(), b""]), Value((1,), [b"\xff"])])
    assert (y.data.dtype, y.data.tolist()) == (np.float64, [2, 4])
    assert (texts.shape, texts.data) == ((2, 2), ["\u00e4".encode(), b"", b"\xff", b"\xfe"])
    assert x.tolist() == [1, 2]


def test_its_exceptions_pass_through(oracle):
    with pytest.raises(ValueError, match="one is empty"):
        oracle.call([Value((0,), np.zeros(0, np.float32)), Value((0,), []), Value((1,), [b""])])
