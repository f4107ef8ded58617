"""A language model in one GGUF file, as llama.cpp has them."""

import mmap
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import dequantize
from numpy.typing import NDArray

from sandseal_sdk.decoders import rope
from sandseal_sdk.decoders.facts import Facts
from sandseal_sdk.decoders.gguf_header import GgufHeader, TensorPlace, read_header
from sandseal_sdk.decoders.gguf_text import read_text
from sandseal_sdk.decoders.source import DecoderShape, Weight, renamed
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported

INTERLEAVED = {"llama": True, "qwen2": False}
"""The architectures that are known, and whether llama.cpp's converter turns their queries and keys around."""

KINDS = (
    Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1,
    Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K,
)  # fmt: skip

_MODEL = {"embedding": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
_LAYER = {
    "attention_norm": "attn_norm.weight", "query": "attn_q.weight", "key": "attn_k.weight", "value": "attn_v.weight",
    "query_bias": "attn_q.bias", "key_bias": "attn_k.bias", "value_bias": "attn_v.bias",
    "attention_output": "attn_output.weight", "mlp_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight", "up": "ffn_up.weight", "down": "ffn_down.weight",
}  # fmt: skip
_FREQUENCIES = "rope_freqs.weight"
# What other models of the same architecture do besides; none of it is built here.
_FOREIGN = ("expert_count", "logit_scale", "residual_scale", "embedding_scale", "attention.scale")


@dataclass(frozen=True, slots=True)
class GgufWeight:
    """A tensor of a mapped file; rows are dequantised when they are asked for."""

    content: mmap.mmap
    place: TensorPlace

    @property
    def shape(self) -> tuple[int, ...]:
        """[rows, columns], or [columns] for a vector, which counts as one row."""
        return self.place.shape

    @property
    def row_bytes(self) -> int:
        """That a row takes in the file."""
        return self.place.row_bytes

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Some rows, [stop - start, columns]."""
        size = self.place.row_bytes
        at, end = self.place.start + start * size, self.place.start + stop * size
        packed = np.frombuffer(self.content[at:end], np.uint8).reshape(stop - start, size)
        return np.asarray(dequantize(packed, self.place.kind), np.float32)


class GgufSource:
    """A `DecoderSource` out of a GGUF file, which stays mapped until it is closed."""

    def __init__(self, path: Path) -> None:
        """Read all but the weights.

        Raises:
            ModelUnreadable: not GGUF, damaged, or without what a language model needs.
            ModelUnsupported: an architecture, quantisation or tokenizer that cannot be imported.
        """
        try:
            with path.open("rb") as file:
                self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # an empty file cannot be mapped
            raise ModelUnreadable(f"{path} cannot be read: {error}") from None
        try:
            self._header = read_header(self._content, path)
            self.shape = _shape(path, self._header, self._frequency_factors())
            everything = Facts(self._header.facts, path.name)
            self.text = read_text(everything, self.shape.vocab)
        except BaseException:
            self.close()
            raise
        self.description = f"{everything.get('general.name', path.stem)} ({path.name})"
        self.licence = str(everything.get("general.license", ""))
        self.size = sum(place.size for place in self._header.tensors.values())
        self._asked: set[str] = {_FREQUENCIES}

    def weight(self, name: str) -> Weight | None:
        """A weight, as `DecoderSource` names it."""
        own = renamed(name, _MODEL, _LAYER, "blk")
        place = self._header.tensors.get(own)
        if place is None:
            return None
        self._asked.add(own)
        return self._weight(own, place)

    def unused(self) -> tuple[str, ...]:
        """Tensors that nobody asked for."""
        return tuple(sorted(self._header.tensors.keys() - self._asked))

    def close(self) -> None:
        """Let go of the file."""
        self._content.close()

    def _weight(self, name: str, place: TensorPlace) -> GgufWeight:
        if place.kind not in KINDS:
            raise ModelUnsupported(
                f"the tensor {name} is quantised as {place.kind.name}, which cannot be imported",
                hint=f"convert the model to one of {', '.join(kind.name for kind in KINDS)}",
            )
        return GgufWeight(self._content, place)

    def _frequency_factors(self) -> NDArray[np.float32] | None:
        place = self._header.tensors.get(_FREQUENCIES)
        return self._weight(_FREQUENCIES, place).rows(0, 1)[0] if place else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _facts(header: GgufHeader, path: Path) -> tuple[str, Facts]:
    """The architecture, and what is said of it."""
    everything = Facts(header.facts, path.name)
    architecture = everything.text("general.architecture")
    if architecture not in INTERLEAVED:
        raise ModelUnsupported(
            f"the architecture {architecture!r} cannot be imported",
            hint=f"known are {', '.join(INTERLEAVED)}, which SmolLM, Mistral and others are, too",
        )
    facts = everything.under(f"{architecture}.")
    for key in _FOREIGN:
        if facts.get(key):
            raise ModelUnsupported(f"the model has a {architecture}.{key}, which cannot be imported")
    return architecture, facts


def _shape(path: Path, header: GgufHeader, factors: NDArray[np.float32] | None) -> DecoderShape:
    architecture, facts = _facts(header, path)
    hidden, heads = facts.count("embedding_length"), facts.count("attention.head_count")
    head_dim = facts.count("attention.key_length", hidden // max(heads, 1))
    if facts.count("attention.value_length", head_dim) != head_dim:
        raise ModelUnsupported("keys and values of different sizes cannot be run")
    if facts.count("rope.dimension_count", head_dim) != head_dim:
        raise ModelUnsupported("a rotary embedding of a part of each head cannot be imported")
    embedding = header.tensors.get(_MODEL["embedding"])
    context = facts.count("context_length")
    window = facts.count("attention.sliding_window", 0)
    return DecoderShape(
        vocab=embedding.shape[0] if embedding else 0,
        hidden=hidden,
        layers=facts.count("block_count"),
        heads=heads,
        kv_heads=facts.count("attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate=facts.count("feed_forward_length"),
        context=context,
        norm_epsilon=facts.number("attention.layer_norm_rms_epsilon"),
        rope=_rope(facts, head_dim, factors),
        interleaved=INTERLEAVED[architecture],
        window=window if 0 < window < context else None,
    )


def _rope(facts: Facts, head_dim: int, factors: NDArray[np.float32] | None) -> rope.Rope:
    theta = facts.number("rope.freq_base", 10_000.0)
    found = rope.plain(theta, head_dim)
    if factors is not None:
        if factors.shape != found.frequencies.shape or not (factors > 0).all():
            raise ModelUnreadable(f"{_FREQUENCIES} is not one positive number for each of {head_dim // 2} pairs")
        found = rope.divided(found, factors)
    scaling = facts.text("rope.scaling.type", "none")
    if scaling == "none":
        return rope.divided(found, facts.number("rope.scale_linear", 1.0))
    factor = facts.number("rope.scaling.factor")
    if scaling == "linear":
        return rope.divided(found, factor)
    if scaling == "yarn":
        return rope.yarn(found, theta, factor, facts.count("rope.scaling.original_context_length"))
    raise ModelUnsupported(f"the rotary embedding is scaled by {scaling!r}; known are linear and yarn")
