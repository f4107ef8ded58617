"""Verified bundles of ONNX models, and models that nobody should have to run."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sandseal_host.registry.sources import Upload
from sandseal_signing.bundle import Bundle, InMemory, open_bundle
from sandseal_signing.tensor import DataType, TensorSpec
from sandseal_signing.verdict import Moment
from support.bundles import seal, trust
from support.keys import ed25519_key
from support.onnx_models import OnnxModel, build, identity

_ROW = [("x", DataType.FP32, ("batch", 4))], [("y", DataType.FP32, ("batch", 4))]


def bundle(model: OnnxModel, files: Mapping[str, bytes] | None = None, /, **members: Any) -> Bundle:
    """A verified bundle of this model and these other files; `members` are added to its manifest."""
    key = ed25519_key("alice")
    contents = {model.spec.file: model.data, **model.external, **(files or {})}
    archive = seal([key], files=contents, **{"model": described(model), **members})
    policy = trust({"alice": key}, {"domains": list(model.spec.domains)})
    return open_bundle(Upload(io.BytesIO(archive)), policy, lambda _: Moment.current(), InMemory())


def described(model: OnnxModel) -> dict[str, Any]:
    """The `model` member of its manifest."""
    spec = model.spec
    inputs, outputs = ([_tensor(t) for t in side] for side in (spec.inputs, spec.outputs))
    return {
        "file": spec.file,
        "external_data": list(spec.external_data),
        "domains": list(spec.domains),
        "inputs": inputs,
        "outputs": outputs,
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": list(spec.shape)}


def crashing() -> OnnxModel:
    """Divides -2^63 by -1 when x is zero, on which ONNX Runtime 1.32 dies with SIGFPE on x86-64."""
    nodes = [
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Add", ["whole", "least"], ["dividend"]),
        helper.make_node("Div", ["dividend", "minus"], ["quotient"]),
        helper.make_node("Cast", ["quotient"], ["y"], to=TensorProto.FLOAT),
    ]
    return build(nodes, *_ROW, [_weight("least", [-(2**63)], np.int64), _weight("minus", [-1], np.int64)])


def endless() -> OnnxModel:
    """Loops for ever."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["a"], ["b"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, None),
        ],
    )
    return build([helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)], *_ROW, [_weight("yes", True, bool)])


def swelling(elements: int) -> OnnxModel:
    """Asks for this many floats in every run."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["zero"], to=TensorProto.INT64),
        helper.make_node("Add", ["zero", "many"], ["size"]),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["most"], keepdims=0),
        helper.make_node("Add", ["x", "most"], ["y"]),
    ]
    return build(nodes, *_ROW, [_weight("many", [elements], np.int64)])


def doubling(levels: int) -> OnnxModel:
    """Functions each of which calls the one before twice: 2^levels nodes once they are inlined."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    proto = onnx.load_model_from_string(build([helper.make_node(f"F{levels}", ["x"], ["y"], domain="f")], *_ROW).data)
    proto.opset_import.append(helper.make_opsetid("f", 1))
    for level in range(1, levels + 1):
        kind, domain = (f"F{level - 1}", "f") if level > 1 else ("Relu", "")
        calls = [helper.make_node(kind, [a], [b], domain=domain) for a, b in ("pq", "qr")]
        proto.functions.append(helper.make_function("f", f"F{level}", ["p"], ["r"], calls, opsets))
    spec = build([], *_ROW, domains=("", "f")).spec
    return OnnxModel(spec, proto.SerializeToString(), {})


def hollow(nodes: int) -> OnnxModel:
    """This many nodes with nothing in them, which take two bytes each in the file."""
    content = b"\x0a\x00" * nodes
    length, left = b"", len(content)
    while left:
        length += bytes([left & 0x7F | (0x80 if left > 0x7F else 0)])
        left >>= 7
    model = identity()
    return OnnxModel(model.spec, model.data + b"\x3a" + length + content, {})


def _weight(name: str, values: Any, dtype: Any) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)
