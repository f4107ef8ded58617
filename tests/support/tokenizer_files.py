"""Small tokenizer.json files and chat templates, written as data: nothing here knows the `tokenizers` library."""

import json
from itertools import islice

from support.decoders import VOCAB

SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>")
END, USER, ASSISTANT = range(VOCAB - len(SPECIAL), VOCAB)
_WORDS = ("the", "ing", "and", "is", "to", "er", "ou", "re", "at", "on", "we", "all", "that")

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

TEMPLATE = b"""
{%- for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant'] %}
        {{- raise_exception('no role is called ' + message.role) }}
    {%- endif %}
    {{- '<|' + message.role + '|>' + message.content + eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""


TOOL_TEMPLATE = b"""
{%- for tool in tools or () %}{{ '<|system|>' + tool.function.name + ': write <tool_call>' }}{% endfor %}
{%- for message in messages %}
    {{- '<|' + message.role + '|>' + message.content }}
    {%- for call in message.tool_calls %}
        {{- '<tool_call>' + call.function.name + (call.function.arguments | tojson) + '</tool_call>' }}
    {%- endfor %}
    {{- eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""
"""Knows functions in Hermes' form, and says no more of them than their names, since contexts here are small."""


def byte_level(vocab: int = VOCAB) -> bytes:
    """A byte-level BPE, in GPT-2's alphabet: tokens 0 to 255 are the bytes, the last three are special."""
    alphabet = _alphabet()
    names = {alphabet[byte]: byte for byte in range(256)}
    merges = []
    for left, right in islice(_pairs(alphabet), vocab - len(SPECIAL) - 256):
        merges.append([left, right])
        names[left + right] = len(names)
    return _document(
        {"type": "BPE", "vocab": names, "merges": merges},
        first_special=vocab - len(SPECIAL),
        pre_tokenizer=_BYTE_LEVEL,
        decoder=_BYTE_LEVEL,
    )


def sentence_piece() -> bytes:
    """SentencePiece's BPE with byte fallback, as Llama 2 has it."""
    names = {"<unk>": 0} | {f"<0x{byte:02X}>": 1 + byte for byte in range(256)}
    for name in ("\u2581", "a", "b", "ü", "\u2581a", "ab"):
        names[name] = len(names)
    merges = [["\u2581", "a"], ["a", "b"]]
    return _document(
        {"type": "BPE", "vocab": names, "merges": merges, "unk_token": "<unk>", "byte_fallback": True},
        first_special=len(names),
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        decoder={
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    )


def changed(tokenizer: bytes, **members: object) -> bytes:
    """The file with other members."""
    return json.dumps(json.loads(tokenizer) | members).encode()


def _document(model: dict, first_special: int, **members: object) -> bytes:
    added = [
        {
            "id": first_special + i, "content": name, "special": True,
            "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        }
        for i, name in enumerate(SPECIAL)
    ]  # fmt: skip
    absent = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return json.dumps({"version": "1.0", "added_tokens": added, "model": model} | absent | members).encode()


def _alphabet() -> list[str]:
    """The character that stands for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def _pairs(alphabet: list[str]):
    """Merges that make words, then words after a space, then characters of two bytes."""
    seen = set()
    texts = [*_WORDS, *(f" {word}" for word in _WORDS), *"äöüß"]
    for text in texts:
        name, *rest = [alphabet[byte] for byte in text.encode()]
        for letter in rest:
            if (name, letter) not in seen:
                seen.add((name, letter))
                yield name, letter
            name += letter
