"""What a decoder's graph takes and gives: the contract that lets its keys and values stay where they are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import onnx

from sandseal_host.errors import ModelInvalid
from sandseal_signing.generation import GenerationSpec
from sandseal_signing.manifest import ModelSpec

PAST, PRESENT = "past_key_values.{}.{}", "present.{}.{}"
SIDES = ("key", "value")

_PAST = re.compile(r"past_key_values\.(\d+)\.key")
_TYPES: Mapping[int, np.dtype[Any]] = {1: np.dtype(np.float32), 10: np.dtype(np.float16)}
_HINT = "import the model with `sandseal import`, or build it with onnxruntime-genai's model builder"


@dataclass(frozen=True, slots=True)
class DecoderSignature:
    """A decoder's sizes and the form of its small inputs.

    Args:
        layers, kv_heads, head: of its attention; head is the size of one.
        dtype: of keys and values.
        vocab: tokens that it knows.
        logits: their data type.
        inputs: names of all inputs but keys and values.
        every_position: logits are [batch, sequence, vocab], not [batch, vocab].
    """

    layers: int
    kv_heads: int
    head: int
    dtype: np.dtype[Any]
    vocab: int
    logits: np.dtype[Any]
    inputs: frozenset[str]
    every_position: bool

    @classmethod
    def read(cls, spec: ModelSpec, model: bytes) -> Self:
        """Look at a graph that `check_graph` has passed.

        Args:
            spec: names its file.
            model: the graph.

        Raises:
            ModelInvalid: it is no decoder of this form; the message says what is missing.
        """
        graph = onnx.load_model_from_string(model).graph
        inputs, outputs = ({each.name: each for each in side} for side in (graph.input, graph.output))
        layers = sum(1 for name in inputs if _PAST.fullmatch(name))
        sides = [(i, side) for i in range(layers) for side in SIDES]
        names = {PAST.format(*each) for each in sides}
        small = frozenset(inputs) - names - {each.name for each in graph.initializer}
        _check_names(spec, layers, small, set(outputs), names <= set(inputs))
        _check_attention(spec, graph, layers)
        kinds = {_kind(spec, inputs[name]) for name in names}
        shapes = {tuple(_shape(inputs[name])[1::2]) for name in names}
        logits = _shape(outputs["logits"])
        sizes = [*next(iter(shapes)), *logits[-1:]]
        if len(kinds) > 1 or len(shapes) > 1 or len(sizes) != 3 or not all(sizes) or len(logits) not in (2, 3):
            raise ModelInvalid(
                f"{spec.file}: keys and values must all be [batch, heads, past, size] of one kind, with fixed heads "
                "and size, and logits [batch, vocab] or [batch, sequence, vocab]",
                hint=_HINT,
            )
        kv_heads, head, vocab = sizes
        every = len(logits) == 3
        return cls(layers, kv_heads, head, kinds.pop(), vocab, _kind(spec, outputs["logits"]), small, every)

    def slot_bytes(self, context: int) -> int:
        """Bytes of the keys and values of a sequence of so many positions."""
        return 2 * self.layers * self.kv_heads * context * self.head * self.dtype.itemsize


def check_tokens(spec: GenerationSpec, vocab: int) -> None:
    """See that a graph knows the tokens that its bundle names.

    Raises:
        ModelInvalid: it does not know one.
    """
    for name, tokens in (("stop_ids", spec.stop_ids), ("add_bos", () if spec.add_bos is None else (spec.add_bos,))):
        unknown = next((token for token in tokens if token >= vocab), None)
        if unknown is not None:
            raise ModelInvalid(
                f"bundle.json: generation.{name} has token {unknown}, and the graph knows 0 to {vocab - 1}",
                hint="name tokens of the graph, or bring the graph that the tokenizer belongs to",
                token=unknown,
            )


def _check_names(spec: ModelSpec, layers: int, small: frozenset[str], outputs: set[str], whole: bool) -> None:
    needed = {"logits", *(PRESENT.format(i, side) for i in range(layers) for side in SIDES)}
    lengths = {"attention_mask"}, {"seqlens_k", "total_sequence_length"}
    rest = small - {"input_ids", "position_ids", "last_index"}
    if not layers or not whole or outputs != needed or rest not in lengths or "input_ids" not in small:
        raise ModelInvalid(
            f"{spec.file} is no decoder of a known form: inputs {sorted(small)} with {layers} layers of past keys",
            hint=_HINT,
            inputs=sorted(small), layers=layers,
        )  # fmt: skip


def _check_attention(spec: ModelSpec, graph: onnx.GraphProto, layers: int) -> None:
    """See that past and present may lie in the same memory, as this operator alone promises."""
    sharing = sum(1 for node in graph.node if node.op_type == "GroupQueryAttention")
    if sharing != layers:
        raise ModelInvalid(
            f"{spec.file} has {layers} layers of past keys, but {sharing} GroupQueryAttention nodes: each step would "
            "copy all keys and values, which this host does not do",
            hint="give `sandseal import hf` the folder of safetensors that the graph was exported from, or build it "
            "with onnxruntime-genai's model builder",
        )


def _kind(spec: ModelSpec, info: onnx.ValueInfoProto) -> np.dtype[Any]:
    kind = info.type.tensor_type.elem_type
    if kind not in _TYPES:
        raise ModelInvalid(f"{spec.file}: {info.name} is neither FP32 nor FP16", hint=_HINT, tensor=info.name)
    return _TYPES[kind]


def _shape(info: onnx.ValueInfoProto) -> list[int]:
    """Its axes; 0 for those that are free."""
    return [axis.dim_value for axis in info.type.tensor_type.shape.dim]
