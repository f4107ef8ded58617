"""The tokenizer, chat template and stop tokens of a GGUF file, as `tokenizer.json` and its company."""

import json
from collections.abc import Mapping, Sequence

from sandseal_sdk.decoders.facts import Facts
from sandseal_sdk.decoders.source import TextParts
from sandseal_sdk.decoders.template import complete_template, merged_template
from sandseal_sdk.decoders.tokenizer_json import Token, byte_level_tokenizer, sentencepiece_tokenizer
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported

_CONTROL, _USER_DEFINED, _UNKNOWN = 3, 4, 2
_STOP_KEYS = ("eos", "eot", "eom")
# Tokens that end a turn in every model that has them, whatever else the file says.
STOP_TOKENS = frozenset(("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "</s>"))
_BOS_UNLESS_TOLD = ("llama-bpe", "llama3", "tekken")
_SAMPLING = {
    "temp": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "penalty_repeat": "repetition_penalty",
}  # fmt: skip


def read_text(facts: Facts, vocab: int) -> TextParts:
    """Everything about text that a file's facts say.

    Args:
        vocab: rows of the embedding.

    Raises:
        ModelUnreadable: there is no vocabulary, or it is damaged.
        ModelUnsupported: a kind of tokenizer that cannot be made a tokenizer.json.
    """
    ggml = facts.under("tokenizer.ggml.")
    tokens = _tokens(ggml, vocab)
    ids = {name: _token_id(ggml, name, len(tokens)) for name in ("bos", *_STOP_KEYS)}
    model, pre = ggml.text("model"), ggml.text("pre", "")
    if model == "gpt2":
        tokenizer = byte_level_tokenizer(tokens, _merges(ggml), pre)
    elif model == "llama":
        prefix = ggml.get("add_space_prefix", True) is not False
        tokenizer = sentencepiece_tokenizer(tokens, _scores(ggml, len(tokens)), prefix=prefix)
    else:
        raise ModelUnsupported(f"a tokenizer of the kind {model!r} cannot be imported; known are gpt2 and llama")
    template = facts.text("tokenizer.chat_template", "")
    template = merged_template(template, facts.text("tokenizer.chat_template.tool_use", ""))
    names = {f"{name}_token": tokens[i].text for name, i in ids.items() if i is not None}
    return TextParts(
        tokenizer=json.dumps(tokenizer, ensure_ascii=False).encode(),
        chat_template=complete_template(template, names) if template else None,
        stop_ids=_stop_ids(ids, tokens),
        add_bos=ids["bos"] if ggml.get("add_bos_token", model == "llama" or pre in _BOS_UNLESS_TOLD) else None,
        defaults=facts.under("general.sampling.").numbers(_SAMPLING),
    )


def _tokens(ggml: Facts, vocab: int) -> list[Token]:
    texts = ggml.list_of("tokens", str)
    kinds = ggml.list_of("token_type", int) if ggml.get("token_type") else [1] * len(texts)
    if not 0 < len(texts) <= vocab or len(kinds) != len(texts):
        raise ModelUnreadable(f"the file has {len(texts)} tokens, {len(kinds)} kinds of them, and {vocab} embeddings")
    special = {_CONTROL: True, _UNKNOWN: True, _USER_DEFINED: False}
    return [Token(text, special.get(kind)) for text, kind in zip(texts, kinds, strict=True)]


def _merges(ggml: Facts) -> list[tuple[str, str]]:
    return [(left, right) for left, _, right in (text.partition(" ") for text in ggml.list_of("merges", str))]


def _scores(ggml: Facts, count: int) -> list[float]:
    scores = ggml.list_of("scores", float)
    if len(scores) != count:
        raise ModelUnreadable(f"the file has {len(scores)} scores for {count} tokens")
    return scores


def _token_id(ggml: Facts, name: str, count: int) -> int | None:
    value = ggml.get(f"{name}_token_id")
    return value if type(value) is int and 0 <= value < count else None


def _stop_ids(ids: Mapping[str, int | None], tokens: Sequence[Token]) -> tuple[int, ...]:
    said = [ids[name] for name in _STOP_KEYS]
    known = [i for i, token in enumerate(tokens) if token.special and token.text in STOP_TOKENS]
    return tuple(dict.fromkeys(i for i in (*said, *known) if i is not None))
