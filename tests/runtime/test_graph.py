from dataclasses import replace

import onnx
import pytest
from onnx import helper

from sandseal_host.errors import ModelInvalid
from sandseal_host.runtime.graph import check_graph
from sandseal_signing.tensor import DataType
from support import onnx_models

ROW = ("batch", 4)


def with_node(operator: str, domain: str = "", **attributes) -> onnx_models.OnnxModel:
    node = helper.make_node(operator, ["x"], ["y"], domain=domain, **attributes)
    return onnx_models.build([node], [("x", DataType.FP32, ROW)], [("y", DataType.FP32, ROW)])


def changed(model: onnx_models.OnnxModel, change) -> bytes:
    proto = onnx.load_model_from_string(model.data)
    change(proto)
    return proto.SerializeToString()


def test_a_plain_graph_passes():
    model = onnx_models.mlp()
    assert check_graph(model.spec, model.data) == ()


def test_a_domain_that_is_not_declared_is_refused():
    model = with_node("Gelu", "com.microsoft")
    with pytest.raises(ModelInvalid, match=r"Gelu of the operator domain 'com.microsoft'") as refused:
        check_graph(model.spec, model.data)
    assert refused.value.data["domain"] == "com.microsoft"
    check_graph(replace(model.spec, domains=("", "com.microsoft")), model.data)


def test_the_standard_domain_has_two_names():
    model = with_node("Relu", "ai.onnx")
    check_graph(model.spec, model.data)
    check_graph(replace(model.spec, domains=("ai.onnx",)), onnx_models.mlp().data)


def test_branches_are_looked_into():
    inner = helper.make_node("Own", ["x"], ["y"], domain="evil")
    branch = helper.make_graph([inner], "branch", [], [helper.make_tensor_value_info("y", 1, None)])
    model = with_node("If", then_branch=branch, else_branch=branch)
    with pytest.raises(ModelInvalid, match="'evil'"):
        check_graph(model.spec, model.data)


def test_functions_are_looked_into():
    def add_function(proto):
        inner = helper.make_node("Own", ["a"], ["b"], domain="evil")
        proto.functions.append(helper.make_function("", "F", ["a"], ["b"], [inner], [helper.make_opsetid("evil", 1)]))

    model = onnx_models.mlp()
    with pytest.raises(ModelInvalid, match="'evil'"):
        check_graph(model.spec, changed(model, add_function))


def test_precompiled_code_is_refused():
    model = with_node("EPContext", "com.microsoft", ep_cache_context="...")
    with pytest.raises(ModelInvalid, match="precompiled"):
        check_graph(replace(model.spec, domains=("", "com.microsoft")), model.data)


def test_external_data_is_found():
    model = onnx_models.outside()
    assert check_graph(model.spec, model.data) == ("model.onnx.data",)
    model = onnx_models.outside("deep/model.onnx", "w.bin")
    assert model.spec.external_data == ("deep/w.bin",)
    assert check_graph(model.spec, model.data) == ("w.bin",)


@pytest.mark.parametrize("location", ["../model.onnx.data", "./model.onnx.data", "/etc/passwd", "other", ""])
def test_external_data_must_be_exactly_a_declared_file(location):
    def move(proto):
        proto.graph.initializer[0].external_data[0].value = location

    model = onnx_models.outside()
    with pytest.raises(ModelInvalid, match="keeps weights in"):
        check_graph(model.spec, changed(model, move))


def test_a_declared_file_must_be_used():
    model = onnx_models.mlp()
    with pytest.raises(ModelInvalid, match=r"external_data is \['w.bin'\]"):
        check_graph(replace(model.spec, external_data=("w.bin",)), model.data)


def test_external_data_in_an_attribute_is_refused():
    tensor = onnx.load_model_from_string(onnx_models.outside().data).graph.initializer[0]
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    model = onnx_models.build([node], [("x", DataType.FP32, ROW)], [("y", DataType.FP32, ROW)])
    with pytest.raises(ModelInvalid, match="attribute"):
        check_graph(model.spec, model.data)


def test_garbage_is_refused():
    with pytest.raises(ModelInvalid, match="not an ONNX model"):
        check_graph(onnx_models.mlp().spec, b"garbage")
