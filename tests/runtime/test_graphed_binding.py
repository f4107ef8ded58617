import numpy as np
import pytest

from sandseal_host.runtime.device import Device
from sandseal_host.runtime.graph import has_control_flow
from sandseal_host.runtime.graphed_binding import has_graph
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support import onnx_models
from support.staged_device import staged


def tensor(values) -> Tensor:
    data = np.ascontiguousarray(values, np.float32)
    return Tensor("x", DataType.FP32, data.shape, data)


def rows_of(count: int, seed: int = 0):
    return np.random.default_rng(seed).standard_normal((count, 128)).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "static"),
    [
        (onnx_models.mlp(), True),
        (onnx_models.pair(), True),
        (onnx_models.identity(), False),
        (onnx_models.identity(DataType.BYTES, ("batch", 3)), False),
        (onnx_models.nonzero(), False),
    ],
)
def test_graphs_need_shapes_that_rows_alone_fix(model, static):
    assert has_graph(model.spec) is static


@pytest.mark.parametrize("max_rows", [1, 2, 8, 12])
def test_any_number_of_rows_is_answered_as_without_graphs(max_rows):
    model = onnx_models.mlp(max_rows=max_rows)
    with (
        Session.open(model.files, staged(), graphs=True) as graphed,
        Session.open(model.files, Device.parse("cpu")) as plain,
    ):
        for rows in range(1, max_rows + 1):
            inputs = [(tensor(rows_of(rows, rows)),)]
            (got,), (wanted,) = graphed.run(inputs)[0], plain.run(inputs)[0]
            assert got.shape == (rows, 10)
            np.testing.assert_allclose(got.data, wanted.data, rtol=1e-5, atol=1e-6)


def test_requests_are_split_and_held_as_without_graphs():
    model = onnx_models.mlp()
    with Session.open(model.files, staged(), graphs=True) as session:
        requests = [(tensor(rows_of(n, n)),) for n in (1, 3, 1)]
        held = session.run(requests)
        copies = [outputs[0].data.copy() for outputs in held]
        session.run([(tensor(rows_of(5, 99)),)])
        for outputs, copy, (x,) in zip(held, copies, requests, strict=True):
            assert np.array_equal(outputs[0].data, copy)
            np.testing.assert_allclose(session.run([(x,)])[0][0].data, copy, rtol=1e-5, atol=1e-6)


def test_only_the_rows_asked_for_are_copied():
    model = onnx_models.mlp()
    with Session.open(model.files, staged(), graphs=True) as session:
        before, x = session.statistics(), tensor(rows_of(5))
        session.run([(x,)])
        after = session.statistics()
        assert after.uploaded_bytes_total - before.uploaded_bytes_total == x.nbytes
        assert after.downloaded_bytes_total - before.downloaded_bytes_total == 5 * 10 * 4


def test_two_batches_can_be_in_flight_before_any_request_came():
    model = onnx_models.mlp()
    with Session.open(model.files, staged(), graphs=True) as session:
        assert session.statistics().bindings == 2


def test_branches_and_loops_are_run_without_graphs():
    assert has_control_flow(onnx_models.looping().data)
    assert not has_control_flow(onnx_models.mlp().data)


def test_where_there_is_no_gpu_graphs_change_nothing():
    model = onnx_models.mlp()
    with Session.open(model.files, Device.parse("cpu"), graphs=True) as session:
        x = tensor(rows_of(1))
        session.run([(x,)])
        assert session.statistics().gathered_bytes_total == 0
