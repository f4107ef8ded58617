"""Large binary outputs go out from where they lie, unless neighbours' rows lie beside them."""

import json

import numpy as np

from api.double import identity
from sandseal_host.api.answer import Answer
from sandseal_host.api.request_decoder import RequestDecoder
from sandseal_host.api.response_encoder import ResponseEncoder
from sandseal_host.api.terms import Terms
from sandseal_host.serving.request import STANDARD, Response
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType

WIDE = 50_000  # FP32: more than is joined
MODEL = identity("wide", "FP32", "batch", "n")


def answer(data: np.ndarray) -> Answer:
    x = {"name": "x", "datatype": "FP32", "shape": [1, 1], "parameters": {"binary_data_size": 4}}
    text = json.dumps({"inputs": [x], "parameters": {"binary_data_output": True}}).encode()
    asked = RequestDecoder(MODEL.manifest, Terms(STANDARD)).decode(memoryview(text + bytes(4)), len(text))
    outputs = (Tensor("y", DataType.FP32, data.shape, data),)
    return ResponseEncoder(MODEL.manifest, "0" * 64).encode(asked.plan, Response(outputs))


def test_an_output_of_its_own_is_not_copied():
    data = np.arange(WIDE, dtype=np.float32).reshape(1, WIDE)
    made = answer(data)
    (view,) = made.tail
    assert np.shares_memory(np.frombuffer(view, np.float32), data)
    assert made.size == len(made.whole()) == len(made.body) + data.nbytes
    assert made.whole().endswith(data.tobytes())


def test_a_batch_s_row_is_copied_so_that_a_slow_client_holds_no_more_than_its_own():
    batch = np.arange(4 * WIDE, dtype=np.float32).reshape(4, WIDE)
    made = answer(batch[1:2])
    assert not made.tail
    assert made.body.endswith(batch[1].tobytes())


def test_a_small_output_is_written_in_one_piece_with_its_head():
    data = np.arange(8, dtype=np.float32).reshape(1, 8)
    made = answer(data)
    assert not made.tail
    assert made.body.endswith(data.tobytes())
