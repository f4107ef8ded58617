"""What tokens are in bytes: a tokenizer's decoder, as far as those of language models go.

Two families: byte-level (GPT-2's, each character of a token stands for a byte) and SentencePiece's (a mark stands for
a space, and `<0xE2>` for a byte where the vocabulary lacks a character).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandseal_host.errors import ModelInvalid

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_REST = [byte for byte in range(256) if byte not in _PRINTABLE]
# GPT-2's alphabet: bytes that print stand for themselves, the others for the characters from U+0100 on.
_ALPHABET = {byte: byte for byte in _PRINTABLE} | {0x100 + i: byte for i, byte in enumerate(_REST)}
_LETTERS = frozenset(map(chr, _ALPHABET))

Decode = Callable[[str], bytes]


def byte_decoder(decoder: Mapping[str, Any] | None) -> Decode:
    """What makes bytes of a token's name.

    Args:
        decoder: the member of tokenizer.json.

    Raises:
        ModelInvalid: it is of neither family.
    """
    steps = list(_steps(decoder))
    kinds = {step["type"] for step in steps}
    if kinds == {"ByteLevel"}:
        return _from_alphabet
    marks = [mark for step in steps if (mark := _mark(step))]
    if marks and kinds <= {"Replace", "Metaspace", "ByteFallback", "Fuse", "Strip"}:
        return lambda name: _from_marked(name, marks[0], "ByteFallback" in kinds)
    raise ModelInvalid(
        f"tokenizer.json has the decoder {', '.join(sorted(kinds)) or 'null'}, which is neither byte-level nor"
        " SentencePiece's",
        hint="bring a tokenizer of one of these kinds, as language models have",
    )


def _steps(decoder: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for step in decoder["decoders"]:
            yield from _steps(step)
    else:
        yield decoder


def _mark(step: Mapping[str, Any]) -> str:
    """What a step replaces with a space. Strip, which is for the first token of a text, is not for answers."""
    if step["type"] == "Metaspace":
        return str(step["replacement"])
    if step["type"] == "Replace" and step["content"] == " ":
        return str(step["pattern"].get("String", ""))
    return ""


def _from_alphabet(name: str) -> bytes:
    if not _LETTERS.issuperset(name):  # an added token, whose name is plain text
        return name.encode()
    return name.translate(_ALPHABET).encode("latin-1")


def _from_marked(name: str, mark: str, fallback: bool) -> bytes:
    if fallback and (byte := _BYTE.fullmatch(name)):
        return bytes([int(byte[1], 16)])
    return name.replace(mark, " ").encode()
