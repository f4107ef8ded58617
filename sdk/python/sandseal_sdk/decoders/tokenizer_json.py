"""Vocabularies as `tokenizer.json`, the format of Hugging Face's `tokenizers`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported

_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_ANY_CASE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class Token:
    """One entry of a vocabulary.

    Args:
        special: None for an ordinary token; else it stands for itself wherever it occurs in a text, and says whether
            it is left out of a text that is read.
    """

    text: str
    special: bool | None = None


@dataclass(frozen=True, slots=True)
class _Pre:
    """How a text is cut up before tokens are looked for.

    Args:
        pattern: of one piece.
        digits: whether each digit is cut off first.
        whole: whether a piece that is a token is taken as it is, before anything is merged.
        composed: whether a text is brought into Unicode's composed form first.
    """

    pattern: str = _WORDS
    digits: bool = False
    whole: bool = False
    composed: bool = False


_LLAMA3 = _Pre(_ANY_CASE.format(digits=r"\p{N}{1,3}"), whole=True)
_QWEN2 = _Pre(_ANY_CASE.format(digits=r"\p{N}"), composed=True)
PRE_TOKENIZERS: Mapping[str, _Pre] = {
    "gpt-2": _Pre(), "smollm": _Pre(digits=True), "qwen2": _QWEN2, "deepseek-r1-qwen": _QWEN2,
    "llama-bpe": _LLAMA3, "llama3": _LLAMA3, "tekken": _Pre(_TEKKEN, whole=True),
}  # fmt: skip
"""By the names that llama.cpp gives them."""


def byte_level_tokenizer(tokens: Sequence[Token], merges: Sequence[tuple[str, str]], pre: str) -> dict[str, Any]:
    """A tokenizer.json of byte pair encoding whose tokens are spelled in GPT-2's alphabet of bytes.

    Args:
        tokens: by id.
        merges: the first is the most urgent.
        pre: one of `PRE_TOKENIZERS`.

    Raises:
        ModelUnreadable: a token that stands twice, or a merge of what is no token.
        ModelUnsupported: another `pre`.
    """
    if pre not in PRE_TOKENIZERS:
        raise ModelUnsupported(
            f"a tokenizer that cuts texts up as {pre or 'nobody says'!r} cannot be imported",
            hint=f"known are {', '.join(PRE_TOKENIZERS)}; --tokenizer takes the model's own tokenizer.json instead",
        )
    cut = PRE_TOKENIZERS[pre]
    steps = [{"type": "Digits", "individual_digits": True}] if cut.digits else []
    steps += [
        {"type": "Split", "pattern": {"Regex": cut.pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
    ]
    return _document(
        tokens,
        model=_bpe(tokens, merges, ignore_merges=cut.whole),
        normalizer={"type": "NFC"} if cut.composed else None,
        pre_tokenizer={"type": "Sequence", "pretokenizers": steps},
        decoder={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
    )


def sentencepiece_tokenizer(tokens: Sequence[Token], scores: Sequence[float], *, prefix: bool) -> dict[str, Any]:
    """A tokenizer.json of a SentencePiece vocabulary of byte pairs, with a token for each byte that it has no word for.

    Args:
        tokens, scores: by id; of two pieces the one with the higher score is merged first.
        prefix: whether a text is read with a space in front.

    Raises:
        ModelUnreadable: a token that stands twice.
    """
    front = [{"type": "Prepend", "prepend": "\u2581"}] if prefix else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    back = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    unknown = next((token.text for token in tokens if token.special and token.text == "<unk>"), None)
    return _document(
        tokens,
        model=_bpe(tokens, _merges(tokens, scores), byte_fallback=True, fuse_unk=True, unk_token=unknown),
        normalizer={"type": "Sequence", "normalizers": [*front, replace]},
        decoder={"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
    )


def _merges(tokens: Sequence[Token], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to put a token together from two others, those with the highest score first."""
    ids = {token.text: i for i, token in enumerate(tokens)}
    found = []
    for i, token in enumerate(tokens):
        if token.special is None:
            halves = ((token.text[:at], token.text[at:]) for at in range(1, len(token.text)))
            pairs = [(left, right) for left, right in halves if left in ids and right in ids]
            found += [(-scores[i], ids[left], ids[right], left, right) for left, right in pairs]
    return [(left, right) for *_, left, right in sorted(found)]


def _bpe(tokens: Sequence[Token], merges: Sequence[tuple[str, str]], **options: Any) -> dict[str, Any]:
    vocab = {token.text: i for i, token in enumerate(tokens)}
    if len(vocab) < len(tokens):
        raise ModelUnreadable("a token of the vocabulary stands twice")
    if odd := next((pair for pair in merges if not vocab.keys() >= {*pair, "".join(pair)}), None):
        raise ModelUnreadable(
            f"the vocabulary merges {odd[0]!r:.40} and {odd[1]!r:.40}, which are not all tokens of it"
        )
    return {"type": "BPE", "dropout": None, "vocab": vocab, "merges": [list(pair) for pair in merges], **options}


def _document(tokens: Sequence[Token], **parts: Any) -> dict[str, Any]:
    added = [
        {"id": i, "content": token.text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": token.special}
        for i, token in enumerate(tokens) if token.special is not None
    ]  # fmt: skip
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor"))
    return {"version": "1.0", **empty, "added_tokens": added, **parts}
