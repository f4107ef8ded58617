"""A language model in a folder of `config.json` and safetensors, as Hugging Face's tools write it."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from sandseal_sdk.decoders import rope
from sandseal_sdk.decoders.facts import Facts
from sandseal_sdk.decoders.hf_text import read_text
from sandseal_sdk.decoders.source import DecoderShape, Weight, renamed
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")
"""Those whose layers `graph` builds."""

_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_MODEL = {"embedding": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight"}
_LAYER = {
    "attention_norm": "input_layernorm.weight", "query": "self_attn.q_proj.weight", "key": "self_attn.k_proj.weight",
    "value": "self_attn.v_proj.weight", "query_bias": "self_attn.q_proj.bias", "key_bias": "self_attn.k_proj.bias",
    "value_bias": "self_attn.v_proj.bias", "attention_output": "self_attn.o_proj.weight",
    "mlp_norm": "post_attention_layernorm.weight", "gate": "mlp.gate_proj.weight", "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}  # fmt: skip
_COMPUTED = "rotary_emb.inv_freq"  # which old files hold, although it follows from the configuration


@dataclass(frozen=True, slots=True)
class SafetensorsWeight:
    """A tensor of a safetensors file; rows are read when they are asked for."""

    tensor: Any
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """[rows, columns], or [columns] for a vector, which counts as one row."""
        return tuple(self.tensor.get_shape())

    @property
    def row_bytes(self) -> int:
        """That a row takes in the file."""
        dtype = self.tensor.get_dtype()
        if dtype not in _BYTES:
            raise ModelUnsupported(f"the tensor {self.name} is {dtype}; only {', '.join(_BYTES)} can be imported")
        return int(self.shape[-1]) * _BYTES[dtype]

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Some rows, [stop - start, columns]."""
        read = self.tensor[start:stop] if len(self.shape) > 1 else self.tensor[:][None]
        return np.asarray(read, np.float32)


class HfSource:
    """A `DecoderSource` out of a folder, whose files stay open until it is closed."""

    def __init__(self, folder: Path) -> None:
        """Read all but the weights.

        Raises:
            ModelUnreadable: a file is missing or damaged.
            ModelUnsupported: an architecture or a tokenizer that cannot be imported.
        """
        config = Facts.load(folder / "config.json", needed=True)
        architecture = next(iter(config.list_of("architectures", str)), "none")
        if architecture not in ARCHITECTURES:
            raise ModelUnsupported(
                f"the architecture {architecture} cannot be imported", hint=f"known are {', '.join(ARCHITECTURES)}"
            )
        self.shape = _shape(config, architecture)
        self.text = read_text(folder, config)
        self.description = f"{folder.resolve().name} ({architecture})"
        self.licence = ""
        self._open = ExitStack()
        self._tensors = self._read(folder)
        self._asked = {_MODEL["head"]} if config.get("tie_word_embeddings", False) else set()
        self._tied = bool(self._asked)
        self.size = sum(_BYTES.get(t.get_dtype(), 0) * prod(t.get_shape()) for t in self._tensors.values())

    def weight(self, name: str) -> Weight | None:
        """A weight, as `DecoderSource` names it."""
        own = renamed(name, _MODEL, _LAYER, "model.layers")
        if own not in self._tensors or (self._tied and name == "head"):
            return None
        self._asked.add(own)
        return SafetensorsWeight(self._tensors[own], own)

    def unused(self) -> tuple[str, ...]:
        """Tensors that nobody asked for."""
        left = self._tensors.keys() - self._asked
        return tuple(sorted(name for name in left if not name.endswith(_COMPUTED)))

    def close(self) -> None:
        """Let go of the files."""
        self._open.close()

    def _read(self, folder: Path) -> Mapping[str, Any]:
        graphs = [] if any(folder.glob("*.safetensors")) else sorted(folder.glob("**/*.onnx"))
        if graphs:
            raise ModelUnreadable(
                f"{folder} has an ONNX graph ({graphs[0].name}) and no safetensors, out of which a graph is made here",
                hint="give the folder that it was exported from; onnxruntime-genai's are for `sandseal import genai`",
            )
        shards = Facts.load(folder / "model.safetensors.index.json").get("weight_map", {"": "model.safetensors"})
        files = sorted({folder / Path(str(name)).name for name in shards.values()})
        tensors: dict[str, Any] = {}
        for path in files:
            try:
                file = self._open.enter_context(safe_open(path, framework="numpy"))
                tensors |= {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
            except (SafetensorError, OSError) as error:
                self.close()
                raise ModelUnreadable(f"{path} cannot be read as safetensors: {error}") from None
        return tensors

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _shape(config: Facts, architecture: str) -> DecoderShape:
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    head_dim = config.count("head_dim", hidden // max(heads, 1))
    if (activation := config.text("hidden_act", "silu")) != "silu":
        raise ModelUnsupported(f"the activation {activation!r} cannot be imported, only 'silu'")
    if config.get("use_sliding_window"):
        raise ModelUnsupported("a window that only some of the layers have cannot be imported")
    context = config.count("max_position_embeddings")
    window = config.count("sliding_window", 0) if architecture.startswith("Mistral") else 0
    return DecoderShape(
        vocab=config.count("vocab_size"),
        hidden=hidden,
        layers=config.count("num_hidden_layers"),
        heads=heads,
        kv_heads=config.count("num_key_value_heads", heads),
        head_dim=head_dim,
        intermediate=config.count("intermediate_size"),
        context=context,
        norm_epsilon=config.number("rms_norm_eps", 1e-6),
        rope=_rope(config, head_dim, context),
        window=window if 0 < window < context else None,
    )


def _rope(config: Facts, head_dim: int, context: int) -> rope.Rope:
    scaling = config.child("rope_parameters") if config.get("rope_parameters") else config.child("rope_scaling")
    theta = scaling.number("rope_theta", config.number("rope_theta", 10_000.0))
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if scaling.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0)) != 1.0:
        raise ModelUnsupported("a rotary embedding of a part of each head cannot be imported")
    plain = rope.plain(theta, head_dim)
    if kind == "default":
        return plain
    factor = scaling.number("factor")
    if kind == "linear":
        return rope.divided(plain, factor)
    original = scaling.count("original_max_position_embeddings", context)
    if kind == "llama3":
        low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
        return rope.llama3(plain, factor, low, high, original)
    if kind == "yarn":
        fast, slow = scaling.number("beta_fast", 32.0), scaling.number("beta_slow", 1.0)
        magnitude = scaling.number("attention_factor") if scaling.get("attention_factor") else None
        return rope.yarn(plain, theta, factor, original, fast=fast, slow=slow, magnitude=magnitude)
    raise ModelUnsupported(f"the rotary embedding is scaled by {kind!r}; known are linear, llama3 and yarn")
