"""Small ONNX models for tests, each with the spec that a manifest would give it."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from onnx import TensorProto, helper, load_from_string, numpy_helper

from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.tensors import KINDS
from sandseal_signing.manifest import Batching, ModelSpec
from sandseal_signing.tensor import DataType, TensorSpec

Axes = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model as a bundle holds it: what the manifest says, the graph, the files beside it."""

    spec: ModelSpec
    data: bytes
    external: dict[str, bytes]

    @property
    def files(self) -> ModelFiles:
        """What it is opened from."""
        return ModelFiles(self.spec, self.data, self.external)


def build(
    nodes: Sequence,
    inputs: Sequence[tuple[str, DataType, Axes]],
    outputs: Sequence[tuple[str, DataType, Axes]],
    weights: Sequence[TensorProto] = (),
    *,
    max_rows: int = 32,
    max_delay_us: int = 0,
    file: str = "model.onnx",
    external: dict[str, bytes] | None = None,
    domains: tuple[str, ...] = ("",),
) -> OnnxModel:
    """A model of these nodes; the graph declares what the spec says."""
    graph = helper.make_graph(nodes, "g", [_info(*i) for i in inputs], [_info(*o) for o in outputs], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    spec = ModelSpec(
        file=file,
        inputs=tuple(TensorSpec(*i) for i in inputs),
        outputs=tuple(TensorSpec(*o) for o in outputs),
        external_data=tuple(external or ()),
        domains=domains,
        batching=Batching(max_rows, max_delay_us),
    )
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return OnnxModel(spec, model.SerializeToString(), external or {})


def mlp(sizes: Sequence[int] = (128, 256, 10), *, max_rows: int = 32) -> OnnxModel:
    """x FP32 [batch, sizes[0]] -> y FP32 [batch, sizes[-1]], with Relu between the layers; tiny by default."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        weights.append(numpy_helper.from_array(rng.standard_normal((a, b), np.float32) / np.float32(a**0.5), f"w{i}"))
        final = i == len(sizes) - 2
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], ["y" if final else f"h{i}"]))
        if not final:
            nodes.append(helper.make_node("Relu", [f"h{i}"], [f"r{i}"]))
            last = f"r{i}"
    io = ("batch", sizes[0]), ("batch", sizes[-1])
    return build(nodes, [("x", DataType.FP32, io[0])], [("y", DataType.FP32, io[1])], weights, max_rows=max_rows)


@cache
def wide_mlp() -> OnnxModel:
    """768 -> 3072 -> 3072 -> 3072 -> 768: reading its 94 MB of weights is what a run costs, whatever its rows."""
    return mlp((768, 3072, 3072, 3072, 768))


@cache
def conv_net(size: int = 96) -> OnnxModel:
    """x FP32 [batch, 3, size, size] -> y FP32 [batch, 64]: three convolutions, so a run costs what its rows cost."""
    rng, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for i, (a, b) in enumerate(itertools.pairwise((3, 32, 64, 64))):
        weights.append(
            numpy_helper.from_array(rng.standard_normal((b, a, 3, 3), np.float32) / np.float32(3 * a), f"k{i}")
        )
        nodes.append(helper.make_node("Conv", [last, f"k{i}"], [f"c{i}"], pads=[1] * 4, strides=[1 + (i < 2)] * 2))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        last = f"r{i}"
    nodes += [helper.make_node("GlobalAveragePool", [last], ["p"]), helper.make_node("Flatten", ["p"], ["y"])]
    io = ("batch", 3, size, size), ("batch", 64)
    return build(nodes, [("x", DataType.FP32, io[0])], [("y", DataType.FP32, io[1])], weights)


@cache
def encoder(layers: int = 4, width: int = 384, tokens: int = 16) -> OnnxModel:
    """x INT64 [batch, tokens] -> y FP32 [batch, width]: a small text encoder with attention, averaged over tokens."""
    rng, weights, last = np.random.default_rng(0), [], "e"
    sizes = {
        "q": (width, width),
        "k": (width, width),
        "v": (width, width),
        "u": (width, 4 * width),
        "d": (4 * width, width),
    }
    nodes = [helper.make_node("Gather", ["table", "x"], ["e"])]
    weights.append(numpy_helper.from_array(rng.standard_normal((4096, width), np.float32), "table"))
    for i in range(layers):
        for name, shape in sizes.items():
            weights.append(
                numpy_helper.from_array(rng.standard_normal(shape, np.float32) / np.float32(width), f"{name}{i}")
            )
        chain = (
            ("MatMul", [last, f"q{i}"], "Q"), ("MatMul", [last, f"k{i}"], "K"), ("MatMul", [last, f"v{i}"], "V"),
            ("Transpose", [f"K{i}"], "T"), ("MatMul", [f"Q{i}", f"T{i}"], "S"), ("Softmax", [f"S{i}"], "A"),
            ("MatMul", [f"A{i}", f"V{i}"], "O"), ("Add", [f"O{i}", last], "R"), ("MatMul", [f"R{i}", f"u{i}"], "U"),
            ("Relu", [f"U{i}"], "G"), ("MatMul", [f"G{i}", f"d{i}"], "D"), ("Add", [f"D{i}", f"R{i}"], "E"),
        )  # fmt: skip
        for kind, inputs, output in chain:
            more = {"perm": [0, 2, 1]} if kind == "Transpose" else {}
            nodes.append(helper.make_node(kind, inputs, [f"{output}{i}"], **more))
        last = f"E{i}"
    nodes.append(helper.make_node("ReduceMean", [last], ["y"], axes=[1], keepdims=0))
    return build(nodes, [("x", DataType.INT64, ("batch", tokens))], [("y", DataType.FP32, ("batch", width))], weights)


def embedder(layers: int = 6, width: int = 384, tokens: int = 32) -> OnnxModel:
    """An `encoder` whose x is FP32, for clients that send nothing else; by default of the size of a MiniLM."""
    inner = load_from_string(encoder(layers, width, tokens).data).graph
    inner.node[0].input[1] = "ids"
    nodes = [helper.make_node("Cast", ["x"], ["ids"], to=TensorProto.INT64), *inner.node]
    x, y = ("x", DataType.FP32, ("batch", tokens)), ("y", DataType.FP32, ("batch", width))
    return build(nodes, [x], [y], list(inner.initializer))


def identity(dtype: DataType = DataType.FP32, shape: Axes = ("batch", "width"), *, max_rows: int = 32) -> OnnxModel:
    """x -> y, unchanged."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return build([node], [("x", dtype, shape)], [("y", dtype, shape)], max_rows=max_rows)


def summing(width: int) -> OnnxModel:
    """y = next = sum + x, FP32 [batch, width]."""
    nodes = [helper.make_node("Add", ["sum", "x"], ["next"]), helper.make_node("Identity", ["next"], ["y"])]
    sides = (("sum", "x"), ("y", "next"))
    return build(nodes, *([(name, DataType.FP32, ("batch", width)) for name in side] for side in sides))


def softmax() -> OnnxModel:
    """x FP32 [batch, width] -> y of that shape, with values between that are as large."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], axis=-1),
        helper.make_node("Add", ["s", "x"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    axes = ("batch", "width")
    return build(nodes, [("x", DataType.FP32, axes)], [("y", DataType.FP32, axes)])


def pair() -> OnnxModel:
    """a FP32 [batch, 4] and b INT64 [batch, 4] -> s = a + b, d = a - b."""
    nodes = [
        helper.make_node("Cast", ["b"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["a", "f"], ["s"]),
        helper.make_node("Sub", ["a", "f"], ["d"]),
    ]
    row = ("batch", 4)
    inputs = [("a", DataType.FP32, row), ("b", DataType.INT64, row)]
    return build(nodes, inputs, [("s", DataType.FP32, row), ("d", DataType.FP32, row)])


def picky(entries: int = 8) -> OnnxModel:
    """index INT64 [batch, 1] -> entry FP32 [batch, 1]: fails for an index that is not in -entries..entries-1."""
    table = numpy_helper.from_array(np.arange(entries, dtype=np.float32), "table")
    node = helper.make_node("Gather", ["table", "index"], ["entry"])
    row = ("batch", 1)
    return build([node], [("index", DataType.INT64, row)], [("entry", DataType.FP32, row)], [table])


def nonzero() -> OnnxModel:
    """x FP32 [n] -> where INT64 [1, k]: the output's size depends on the input's values; no rows."""
    node = helper.make_node("NonZero", ["x"], ["where"])
    return build([node], [("x", DataType.FP32, ("n",))], [("where", DataType.INT64, (1, "k"))], max_rows=1)


def looping() -> OnnxModel:
    """rounds INT64 [batch, 1] -> turns INT64 [batch, 1]: goes as often through a loop as the largest input says."""
    turn, yes = TensorProto.INT64, TensorProto.BOOL
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["before", "one"], ["after"])],
        "body",
        [_scalar("i", turn), _scalar("go", yes), helper.make_tensor_value_info("before", turn, ["batch", 1])],
        [_scalar("on", yes), helper.make_tensor_value_info("after", turn, ["batch", 1])],
    )
    nodes = [
        helper.make_node("ReduceMax", ["rounds"], ["most"], keepdims=0),
        helper.make_node("Mul", ["rounds", "zero"], ["none"]),
        helper.make_node("Loop", ["most", "", "none"], ["turns"], body=body),
    ]
    weights = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in (("one", 1), ("zero", 0))]
    row = ("batch", 1)
    return build(nodes, [("rounds", DataType.INT64, row)], [("turns", DataType.INT64, row)], weights)


def losing() -> OnnxModel:
    """x FP32 [batch, 4] -> y FP32 [1, 4], which graph and spec call [batch, 4]: only the first row comes out."""
    node = helper.make_node("Compress", ["x", "first"], ["y"], axis=0)
    first = numpy_helper.from_array(np.array([True]), "first")
    row = ("batch", 4)
    return build([node], [("x", DataType.FP32, row)], [("y", DataType.FP32, row)], [first])


def outside(file: str = "model.onnx", location: str = "model.onnx.data", offset: int = 0) -> OnnxModel:
    """x FP32 [batch, 4] -> y = 2 x, with the weights in a file beside the graph."""
    weights = (2 * np.eye(4, dtype=np.float32)).tobytes()
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(len(weights)))):
        tensor.external_data.add(key=key, value=value)
    row = ("batch", 4)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    name = file[: file.rfind("/") + 1] + location
    io = [("x", DataType.FP32, row)], [("y", DataType.FP32, row)]
    return build([node], *io, [tensor], file=file, external={name: weights})


def reshaping() -> OnnxModel:
    """x FP32 [batch, 8] -> y FP32 [batch, 2, 4], whose shape the graph computes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Concat", ["s", "tail"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    tail = numpy_helper.from_array(np.array([2, 4]), "tail")
    return build(nodes, [("x", DataType.FP32, ("batch", 8))], [("y", DataType.FP32, ("batch", 2, 4))], [tail])


def layers_outside(width: int, layers: int) -> OnnxModel:
    """x FP32 [batch, width] -> y of that shape through MatMuls, whose weights lie one after another in a file.

    That file is not made: `external` has its name alone.
    """
    size = 4 * width * width
    weights, nodes = [], []
    for i in range(layers):
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=(width, width))
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "model.onnx.data"), ("offset", str(i * size)), ("length", str(size))):
            weight.external_data.add(key=key, value=value)
        weights.append(weight)
        last, name = f"h{i - 1}" if i else "x", f"h{i}" if i < layers - 1 else "y"
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [name]))
    axes = ("batch", width)
    io = [("x", DataType.FP32, axes)], [("y", DataType.FP32, axes)]
    return build(nodes, *io, weights, external={"model.onnx.data": b""})


def _info(name: str, dtype: DataType, shape: Axes):
    return helper.make_tensor_value_info(name, KINDS[dtype].onnx, list(shape))


def _scalar(name: str, kind: int):
    return helper.make_tensor_value_info(name, kind, [])


def picky_from_one(entries: int = 8) -> OnnxModel:
    """index INT64 [batch, 1] -> entry FP32 [batch, 1]: table[index - 1 + entries] for positive ones; 0 fails."""
    table = numpy_helper.from_array(np.arange(entries, dtype=np.float32), "table")
    shift = numpy_helper.from_array(np.array([entries + 1], np.int64), "shift")
    nodes = [
        helper.make_node("Sub", ["index", "shift"], ["at"]),
        helper.make_node("Gather", ["table", "at"], ["entry"]),
    ]
    row = ("batch", 1)
    return build(nodes, [("index", DataType.INT64, row)], [("entry", DataType.FP32, row)], [table, shift])


def mixed(*dtypes: DataType) -> OnnxModel:
    """x0, x1 ... -> y0, y1 ..., each of its own type, unchanged."""
    nodes = [helper.make_node("Identity", [f"x{i}"], [f"y{i}"]) for i in range(len(dtypes))]
    inputs, outputs = ([(f"{side}{i}", dtype, ("batch", 2)) for i, dtype in enumerate(dtypes)] for side in "xy")
    return build(nodes, inputs, outputs)


def huge() -> OnnxModel:
    """size INT64 [1] -> y FP32 [k]: as many zeros as it is told."""
    node = helper.make_node("ConstantOfShape", ["size"], ["y"])
    return build([node], [("size", DataType.INT64, (1,))], [("y", DataType.FP32, ("k",))], max_rows=1)
