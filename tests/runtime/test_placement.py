import onnxruntime
import pytest

from sandseal_host.errors import DeviceUnavailable
from sandseal_host.runtime import placement
from sandseal_host.runtime.placement import RECORD, misplaced
from sandseal_host.runtime.session import Session
from support import onnx_models
from support.staged_device import StagedCpu, staged


def parts(model: onnx_models.OnnxModel):
    """What ONNX Runtime says of a session, all of whose nodes are on the CPU."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(RECORD, "1")
    session = onnxruntime.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
    return session.get_provider_graph_assignment_info()


def test_a_model_s_own_work_belongs_on_its_device():
    assert misplaced(parts(onnx_models.mlp()), "CUDAExecutionProvider")["MatMul"] == 2


def test_what_computes_shapes_may_lie_on_the_cpu():
    assert not misplaced(parts(onnx_models.reshaping()), "CUDAExecutionProvider")


def test_nothing_is_misplaced_where_it_should_be():
    assert not misplaced(parts(onnx_models.mlp()), "CPUExecutionProvider")


class Elsewhere(StagedCpu):
    """A device whose provider ONNX Runtime has no kernels for, so that all of them are the CPU's."""

    def session_options(self):
        return {RECORD: "1"}


def test_a_session_that_runs_elsewhere_is_refused_with_its_operators(monkeypatch):
    backend = Elsewhere()
    model = onnx_models.mlp()
    monkeypatch.setattr(placement, "misplaced", lambda found, _: misplaced(found, "another"))
    with pytest.raises(DeviceUnavailable, match=r"no way to run .*MatMul.* on cuda:0") as refused:
        Session.open(model.files, staged(0, backend))
    assert refused.value.data["operators"]["MatMul"] == 2
