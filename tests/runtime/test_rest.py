"""What a session gives back while nobody asks it anything, and that it does not grow while many do."""

import sys

import numpy as np
import pytest
from onnx import helper

from sandseal_host.runtime.device import Device
from sandseal_host.runtime.memory import resident_bytes
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import DataType
from support import onnx_models

MB = 1_000_000
CPU = Device.parse("cpu")

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what is resident")


def softmax() -> onnx_models.OnnxModel:
    """x FP32 [batch, width] -> y of that shape, with values between that are as large."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], axis=-1),
        helper.make_node("Add", ["s", "x"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    axes = ("batch", "width")
    return onnx_models.build(nodes, [("x", DataType.FP32, axes)], [("y", DataType.FP32, axes)])


def row(width: int) -> tuple[Tensor, ...]:
    return (Tensor("x", DataType.FP32, (1, width), np.ones((1, width), np.float32)),)


def test_a_session_that_rests_gives_back_what_its_largest_batch_took():
    model = softmax()
    with Session.open(model.spec, model.data, {}, CPU) as session:
        session.run([row(4_000_000)] * 8)  # 128 MB in the buffer, as much in the arena
        busy = resident_bytes()
        session.rest()  # it ran since the last time
        assert session.statistics().buffer_bytes == 128 * MB
        session.rest()
        assert session.statistics().buffer_bytes == 0
        assert busy - resident_bytes() > 200 * MB
        gathered = session.statistics().gathered_bytes_total
        assert gathered == 128 * MB  # a counter never goes back
        assert session.run([row(3)] * 2)[1][0].shape == (1, 3)


def test_rest_is_cheap_where_nothing_happened():
    model = softmax()
    with Session.open(model.spec, model.data, {}, CPU) as session:
        session.rest()
        session.rest()
        runs = session.statistics().runs_total
        session.rest()
        assert session.statistics().runs_total == runs
    session.rest()  # closed


@pytest.mark.slow
def test_ten_thousand_requests_of_any_shape_leave_nothing():
    model, rng = softmax(), np.random.default_rng(0)
    with Session.open(model.spec, model.data, {}, CPU) as session:

        def answer(count: int) -> int:
            while count > 0:
                many, width = int(rng.integers(1, 33)), int(rng.integers(1, 20_000))
                assert len(session.run([row(width)] * many)) == many
                count -= many
            return resident_bytes()

        answer(2_000)
        session.rest()
        session.rest()
        before = resident_bytes()
        most = max(answer(1_000) for _ in range(10))
        session.rest()
        session.rest()
        assert most - before < 60 * MB  # what the largest of them takes
        assert resident_bytes() - before < 5 * MB
