import numpy as np
import pytest

from sandseal_host.errors import RequestInvalid
from sandseal_host.runtime.text import from_strings, to_strings
from sandseal_host.tensors import Tensor, pack_bytes, unpack_bytes
from sandseal_signing.tensor import DataType


def test_text_survives_both_ways():
    elements = [b"", b"plain", "h\u00e9\u4e2d\0".encode(), b"x" * 70_000]
    tensor = Tensor("t", DataType.BYTES, (2, 2), pack_bytes(elements))
    strings = to_strings(tensor)
    assert strings.shape == (2, 2)
    assert unpack_bytes(from_strings("t", strings)) == elements


@pytest.mark.parametrize("shape", [(0,), (0, 3), ()])
def test_shapes_without_axes_or_elements(shape):
    elements = [b"one"] * int(np.prod(shape))
    tensor = Tensor("t", DataType.BYTES, shape, pack_bytes(elements))
    back = from_strings("t", to_strings(tensor))
    assert back.shape == shape
    assert unpack_bytes(back) == elements


def test_other_bytes_are_refused():
    with pytest.raises(RequestInvalid, match="not UTF-8"):
        to_strings(Tensor("t", DataType.BYTES, (1,), pack_bytes([b"\xff"])))
