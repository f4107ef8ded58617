"""What is well signed, and only a host can see: graphs that reach out of the bundle, plugins that are none."""

from collections.abc import Iterator, Sequence
from typing import Any

from onnx import TensorProto, helper

from sandbox.guests import guest, stage_spec, wasm
from sandseal_host.runtime.graph import check_graph
from sandseal_host.sandbox.engine import SandboxEngine
from sandseal_signing.manifest import parse_manifest
from vectors.hostile import registries
from vectors.hostile.case import Case, content

SPEC = parse_manifest(content()["bundle.json"]).model


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file and of what a registry sees by name."""
    yield from registries.cases()
    for name, (stands_for, data) in _GRAPHS.items():
        yield f"graph-{name}", Case(stands_for, lambda _, data=data: check_graph(SPEC, data))
    for name, (stands_for, data) in _MODULES.items():
        yield f"plugin-{name}", Case(stands_for, lambda _, data=data: _compile(data))


def _compile(data: bytes) -> None:
    with SandboxEngine(pooling=False) as engine:
        engine.compile(data, stage_spec()).close()


def _outside(location: str, name: str = "w") -> TensorProto:
    """Weights that lie in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def _graph(nodes: Sequence[Any] = (), weights: Sequence[TensorProto] = ()) -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    nodes = [*nodes, helper.make_node("Identity", ["x"], ["y"])]
    data: bytes = helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights)).SerializeToString()
    return data


def _in_subgraph(location: str) -> bytes:
    inner = helper.make_graph([], "inner", [], [], [_outside(location)])
    return _graph([helper.make_node("If", ["x"], ["z"], then_branch=inner, else_branch=inner)])


_GRAPHS = {
    "honest": ("what is right is taken", _graph()),
    "not-a-graph": ("bytes that are no protobuf", b"\xff" * 64),
    "weights-above": ("CVE-2022-25882: a path out of the bundle", _graph(weights=[_outside("../../etc/passwd")])),
    "weights-absolute": ("CVE-2024-27318: a path out of the bundle", _graph(weights=[_outside("/etc/passwd")])),
    "weights-not-listed": ("weights that nobody signed", _graph(weights=[_outside("w.bin")])),
    "weights-nowhere": ("weights without a place", _graph(weights=[_outside("")])),
    "weights-in-a-subgraph": ("a path out of the bundle, one level down", _in_subgraph("../w")),
    "weights-in-an-attribute": (
        "a path out of the bundle, in a constant",
        _graph([helper.make_node("Constant", [], ["c"], value=_outside("../w"))]),
    ),
    "custom-operator": ("code from elsewhere", _graph([helper.make_node("Evil", ["x"], ["z"], domain="evil")])),
    "precompiled": ("ORT#28725: EPContext", _graph([helper.make_node("EPContext", ["x"], ["z"], domain="")])),
}
_MODULES = {
    "honest": ("what is right is taken", guest()),
    "text": ("wasmtime compiles text as well", b'(module (memory (export "memory") 1))'),
    "native": ("machine code", b"\x7fELF" + bytes(64)),
    "component": ("another binary format", b"\0asm\x0d\0\x01\0"),
    "start": ("code that runs before it is called", guest(extra="(func $s) (start $s)")),
    "file-system": (
        "CVE-2026-58494: WASI's file system",
        guest(imports='(import "wasi_snapshot_preview1" "path_open" (func (param i32)))'),
    ),
    "cut-short": ("truncation", guest()[:-7]),
    "memory64": ("addresses beyond the sandbox's", wasm('(module (memory (export "memory") i64 1))')),
}
