import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from sandseal_sdk.decoders.facts import Facts
from sandseal_sdk.decoders.gguf_text import read_text
from sandseal_sdk.decoders.tokenizer_json import PRE_TOKENIZERS, Token, byte_level_tokenizer
from sandseal_sdk.errors import ModelUnsupported
from support.language_models import MERGES, SPECIAL, vocabulary

PIECES: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "sentencepiece.json").read_bytes())
TOKENS = [Token(text, True if text in SPECIAL else None) for text in vocabulary()]


def byte_level(pre: str) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(byte_level_tokenizer(TOKENS, MERGES, pre)))


@pytest.mark.parametrize("text", PIECES["texts"])
def test_sentencepiece_vocabularies_cut_texts_as_sentencepiece_does(text: str) -> None:
    ggml = {"model": "llama", **{key: PIECES[key] for key in ("tokens", "scores")}, "token_type": PIECES["kinds"]}
    facts = Facts({f"tokenizer.ggml.{key}": value for key, value in ggml.items()}, "x.gguf")
    parts = read_text(facts, len(PIECES["tokens"]))
    tokenizer = Tokenizer.from_str(parts.tokenizer.decode())
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert ids == PIECES["texts"][text]
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode("<s>", add_special_tokens=False).ids[-1] == 1


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
@pytest.mark.parametrize("text", ["hello world", "  Hello,\n\n\tworld 1234!", "na\u00efve \u6771\u4eac \U0001f680", ""])
def test_byte_level_vocabularies_read_back_every_text(pre: str, text: str) -> None:
    tokenizer = byte_level(pre)
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("gpt-2", ["It's", "\u01201234", "\u0120DAYS", "!", "\u010a"]),
        ("smollm", ["It's", "\u0120", "1", "2", "3", "4", "\u0120DAYS", "!", "\u010a"]),
        ("qwen2", ["It's", "\u0120", "1", "2", "3", "4", "\u0120DAYS", "!\u010a"]),
        ("llama-bpe", ["It's", "\u0120", "123", "4", "\u0120DAYS", "!\u010a"]),
        ("tekken", ["It's", "\u0120", "1", "2", "3", "4", "\u0120DAYS", "!\u010a"]),
    ],
)
def test_each_model_cuts_texts_in_its_own_way(pre: str, pieces: list[str]) -> None:
    cut = byte_level(pre).pre_tokenizer
    assert cut is not None
    found = [piece for piece, _ in cut.pre_tokenize_str("It's 1234 DAYS!\n")]
    assert ["".join(found[:2]), *found[2:]] == pieces


def test_special_tokens_stand_for_themselves() -> None:
    tokenizer = byte_level("smollm")
    assert tokenizer.encode("hello<|im_end|> world").ids == [
        *(vocabulary().index(piece) for piece in ("hello", "<|im_end|>", "\u0120wor", "l", "d")),
    ]


def test_an_unknown_way_is_said() -> None:
    with pytest.raises(ModelUnsupported, match="cuts texts up as 'martian'"):
        byte_level("martian")
