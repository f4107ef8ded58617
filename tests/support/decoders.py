"""Tiny decoders by the graph contract of generation: a llama with grouped-query attention and random weights."""

from functools import cache

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from sandseal_host.runtime.decoder import Decoder
from sandseal_host.runtime.device import Device
from sandseal_signing.manifest import TEXT_INPUT, TEXT_OUTPUT, Batching, ModelSpec
from support.onnx_models import OnnxModel

VOCAB, LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, HIDDEN, CONTEXT = 300, 2, 64, 4, 2, 16, 128, 256
_CPU = Device.parse("cpu")


@cache
def decoder(*, masked: bool = False, half: bool = False, max_rows: int = 8, seed: int = 0) -> OnnxModel:
    """A decoder of 300 tokens and up to 256 positions, whose manifest is that of a model that generates text.

    Args:
        masked: lengths come as `attention_mask`, logits for every position, as the genai builder makes them; else as
            `seqlens_k` and `total_sequence_length`, with logits of `last_index` alone, as our importer does.
        half: keys and values are FP16.
        max_rows: sequences that one run takes.
        seed: of the weights.
    """
    graph = _Graph(np.random.default_rng(seed), half)
    hidden = graph.body(graph.lengths(masked))
    if not masked:
        graph.add("Unsqueeze", ["last_index", graph.constant("one", np.array([1]))], "last_place")
        hidden = graph.add("GatherND", [hidden, "last_place"], "last_hidden", batch_dims=1)
    graph.linear(graph.norm(hidden, "final"), "logits", (WIDTH, VOCAB), scale=4.0)
    spec = ModelSpec(
        "decoder.onnx", (TEXT_INPUT,), (TEXT_OUTPUT,), domains=("", "com.microsoft"), batching=Batching(max_rows)
    )
    return OnnxModel(spec, graph.model(masked), {})


class _Graph:
    """A graph as it grows."""

    def __init__(self, rng: np.random.Generator, half: bool) -> None:
        self._rng, self._half = rng, half
        self._nodes: list = []
        self._weights: list = []

    def add(self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def constant(self, name: str, value: np.ndarray) -> str:
        self._weights.append(numpy_helper.from_array(value, name))
        return name

    def linear(self, x: str, output: str, shape: tuple[int, int], scale: float = 1.0) -> str:
        weight = self._rng.standard_normal(shape, np.float32) * np.float32(scale / shape[0] ** 0.5)
        return self.add("MatMul", [x, self.constant(f"{output}.weight", weight)], output)

    def norm(self, x: str, name: str) -> str:
        weight = self.constant(f"{name}.norm", np.ones(WIDTH, np.float32))
        return self.add("SimplifiedLayerNormalization", [x, weight], f"{name}.normed", axis=-1, epsilon=1e-5)

    def lengths(self, masked: bool) -> tuple[str, str]:
        """The names of what says each row's length less one, and the longest row's."""
        if not masked:
            return "seqlens_k", "total_sequence_length"
        one = self.constant("one", np.array([1]))
        self.add("ReduceSum", ["attention_mask", one], "row_sums", keepdims=0)
        self.add("Sub", ["row_sums", one], "row_lasts")
        self.add("Cast", ["row_lasts"], "seqlens", to=TensorProto.INT32)
        self.add("Shape", ["attention_mask"], "mask_axes")
        self.add("Gather", ["mask_axes", self.constant("axis", np.array(1))], "columns", axis=0)
        self.add("Cast", ["columns"], "total", to=TensorProto.INT32)
        return "seqlens", "total"

    def body(self, lengths: tuple[str, str]) -> str:
        table = self._rng.standard_normal((VOCAB, WIDTH), np.float32)
        x = self.add("Gather", [self.constant("table", table), "input_ids"], "embedded")
        angles = np.arange(CONTEXT)[:, None] / 10_000.0 ** (np.arange(0, HEAD, 2) / HEAD)
        kind = np.float16 if self._half else np.float32
        rotary = [self.constant(n, f(angles).astype(kind)) for n, f in (("cos", np.cos), ("sin", np.sin))]
        for i in range(LAYERS):
            x = self._layer(x, i, [*lengths, *rotary])
        return x

    def _layer(self, x: str, i: int, others: list[str]) -> str:
        normed = self.norm(x, f"attention{i}")
        sizes = (HEADS, KV_HEADS, KV_HEADS)
        qkv = [self.linear(normed, f"{n}{i}", (WIDTH, n_heads * HEAD)) for n, n_heads in zip("qkv", sizes, strict=True)]
        if self._half:
            qkv = [self.add("Cast", [name], f"{name}.half", to=TensorProto.FLOAT16) for name in qkv]
        past = [f"past_key_values.{i}.{side}" for side in ("key", "value")]
        present = [f"present.{i}.{side}" for side in ("key", "value")]
        heads = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1}
        inputs, outputs = [*qkv, *past, *others], [f"a{i}", *present]
        self._nodes.append(helper.make_node("GroupQueryAttention", inputs, outputs, domain="com.microsoft", **heads))
        attended = self.add("Cast", [f"a{i}"], f"a{i}.full", to=TensorProto.FLOAT) if self._half else f"a{i}"
        x = self.add("Add", [x, self.linear(attended, f"o{i}", (HEADS * HEAD, WIDTH))], f"x{i}")
        normed = self.norm(x, f"mlp{i}")
        gate = self.linear(normed, f"gate{i}", (WIDTH, HIDDEN))
        gate = self.add("Mul", [gate, self.add("Sigmoid", [gate], f"sigmoid{i}")], f"silu{i}")
        inner = self.add("Mul", [gate, self.linear(normed, f"up{i}", (WIDTH, HIDDEN))], f"inner{i}")
        return self.add("Add", [x, self.linear(inner, f"down{i}", (HIDDEN, WIDTH))], f"y{i}")

    def model(self, masked: bool) -> bytes:
        whole, kind = ["batch", "sequence"], TensorProto.FLOAT16 if self._half else TensorProto.FLOAT
        inputs = [("input_ids", TensorProto.INT64, whole)]
        if masked:
            inputs += [("attention_mask", TensorProto.INT64, ["batch", "total"])]
        else:
            inputs += [
                ("seqlens_k", TensorProto.INT32, ["batch"]),
                ("total_sequence_length", TensorProto.INT32, []),
                ("last_index", TensorProto.INT64, ["batch"]),
            ]
        sides = [f"{i}.{side}" for i in range(LAYERS) for side in ("key", "value")]
        inputs += [(f"past_key_values.{s}", kind, ["batch", KV_HEADS, "past", HEAD]) for s in sides]
        outputs = [("logits", TensorProto.FLOAT, [*whole, VOCAB] if masked else ["batch", VOCAB])]
        outputs += [(f"present.{s}", kind, ["batch", KV_HEADS, "total", HEAD]) for s in sides]
        infos = [[helper.make_tensor_value_info(*each) for each in side] for side in (inputs, outputs)]
        graph = helper.make_graph(self._nodes, "decoder", *infos, self._weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def opened(model: OnnxModel, device: Device = _CPU, *, slots: int = 4, context: int = CONTEXT) -> Decoder:
    """The decoder on a device."""
    return Decoder.open(model.files, device, slots=slots, context=context)
