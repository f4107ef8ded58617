import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_sdk.decoders.bundle import write_decoder
from sandseal_sdk.decoders.gguf_source import KINDS, GgufSource
from sandseal_sdk.decoders.source import TextParts
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported
from support.language_models import MERGES, SPECIAL, TEMPLATE, vocabulary, weights, write_gguf

UNWRITTEN = {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}  # which the gguf package reads, but cannot write


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.name not in UNWRITTEN])
def test_weights_of_every_quantisation_are_read_a_few_rows_at_a_time(kind: str, tmp_path: Path) -> None:
    exact = weights("qwen2")["model.layers.1.mlp.gate_proj.weight"]
    with GgufSource(write_gguf(tmp_path / "x.gguf", "qwen2", kind)) as source:
        weight = source.weight("layers.1.gate")
        assert weight is not None
        assert weight.shape == exact.shape
        read = np.concatenate([weight.rows(0, 1), weight.rows(1, 50), weight.rows(50, len(exact))])
    quantised = gguf.quantize(exact, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(read, gguf.dequantize(quantised, gguf.GGMLQuantizationType[kind]))


@pytest.mark.parametrize("kind", sorted(UNWRITTEN))
def test_k_quants_are_read_a_few_rows_at_a_time(kind: str, tmp_path: Path) -> None:
    quantisation = gguf.GGMLQuantizationType[kind]
    blocks = np.random.default_rng(3).integers(0, 60, (6, 2 * gguf.GGML_QUANT_SIZES[quantisation][1]), np.uint8)
    path = tmp_path / "x.gguf"
    write_gguf(path, "llama")
    writer = gguf.GGUFWriter(path, "llama")
    for key, field in gguf.GGUFReader(path).fields.items():
        if key.startswith(("llama.", "tokenizer.")):
            writer.add_key_value(key, field.contents(), *field.types[:2])
    writer.add_tensor("token_embd.weight", np.zeros((288, 64), np.float32))
    writer.add_tensor("blk.0.ffn_up.weight", blocks, raw_dtype=quantisation)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with GgufSource(path) as source:
        weight = source.weight("layers.0.up")
        assert weight is not None
        assert weight.shape == (6, 512)
        np.testing.assert_array_equal(weight.rows(2, 5), gguf.dequantize(blocks, quantisation)[2:5])


def text_of(path: Path, name: str = "llama", **facts: Any) -> TextParts:
    with GgufSource(write_gguf(path / "x.gguf", name, **facts)) as source:
        return source.text


def test_the_text_parts(tmp_path: Path) -> None:
    text = text_of(tmp_path, general__sampling__temp=0.25, general__sampling__top_k=5)
    document = json.loads(text.tokenizer)
    assert document["model"]["vocab"] == {token: i for i, token in enumerate(vocabulary())}
    assert document["model"]["merges"] == [list(pair) for pair in MERGES]
    assert [(t["id"], t["content"], t["special"]) for t in document["added_tokens"]] == [
        (i, token, True) for i, token in enumerate(SPECIAL)
    ]
    assert text.chat_template == '{% set bos_token = "<|endoftext|>" %}' + TEMPLATE
    assert text.stop_ids == (2, 0)  # the said one first, then another that always ends a text
    assert text.add_bos is None
    assert text.defaults == {"temperature": 0.25, "top_k": 5}


def test_a_token_in_front_where_the_model_wants_one(tmp_path: Path) -> None:
    assert text_of(tmp_path, tokenizer__ggml__add_bos_token=True).add_bos == 0
    assert text_of(tmp_path, tokenizer__ggml__pre="llama-bpe").add_bos == 0
    assert text_of(tmp_path, tokenizer__ggml__pre="llama-bpe", tokenizer__ggml__add_bos_token=False).add_bos is None
    assert text_of(tmp_path, tokenizer__chat_template=None).chat_template is None


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"general__architecture": "bert"}, "the architecture 'bert' cannot be imported"),
        ({"llama__expert_count": 8}, "the model has a llama.expert_count"),
        ({"llama__rope__dimension_count": 8}, "a rotary embedding of a part of each head"),
        ({"llama__attention__value_length": 8}, "keys and values of different sizes"),
        ({"llama__attention__key_length": 12, "llama__attention__value_length": 12}, "heads of size 12"),
        ({"llama__rope__scaling__type": "longrope", "llama__rope__scaling__factor": 2.0}, "scaled by 'longrope'"),
        ({"tokenizer__ggml__model": "t5"}, "a tokenizer of the kind 't5'"),
        ({"tokenizer__ggml__pre": "martian"}, "cuts texts up as 'martian'"),
    ],
)
def test_what_cannot_be_imported_is_said(facts: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match=why):
        GgufSource(write_gguf(tmp_path / "x.gguf", "llama", **facts))


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"llama__block_count": None}, "x.gguf says nothing for llama.block_count, which must be a count"),
        ({"llama__block_count": "two"}, "x.gguf says 'two' for llama.block_count"),
        ({"llama__attention__head_count": 0}, "sizes make no sense"),
        ({"llama__attention__head_count_kv": 3}, "sizes make no sense"),
        ({"llama__context_length": 2**25}, "sizes make no sense"),
        ({"llama__rope__freq_base": 0.0}, "must be a number over 0"),
        ({"tokenizer__ggml__tokens": None}, "must be a list of str"),
        ({"tokenizer__ggml__tokens": [str(i) for i in range(289)]}, "289 tokens"),
        ({"tokenizer__ggml__tokens": ["a"] * 266}, "a token of the vocabulary stands twice"),
        ({"tokenizer__ggml__merges": ["h nothing"]}, "merges 'h' and 'nothing'"),
        ({"tokenizer__ggml__merges": ["h"]}, "merges 'h' and ''"),
        ({"tokenizer__ggml__model": "llama"}, "must be a list of float"),
    ],
)
def test_what_makes_no_sense_is_said(facts: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable) as caught:
        GgufSource(write_gguf(tmp_path / "x.gguf", "llama", **facts))
    assert why in caught.value.message


def test_an_absent_or_empty_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    for name in ("empty.gguf", "absent.gguf", "."):
        with pytest.raises(ModelUnreadable, match="cannot be read"):
            GgufSource(tmp_path / name)


@pytest.mark.parametrize(
    ("facts", "error", "why"),
    [
        ({"llama__block_count": 3}, ModelUnreadable, "the model has no weight layers.2.attention_norm"),
        (
            {"llama__block_count": 1},
            ModelUnsupported,
            "tensors that are not part of a Llama-like decoder: blk.1.attn_k",
        ),
        (
            {"llama__feed_forward_length": 95},
            ModelUnreadable,
            r"layers.0.gate is \[96, 64\], but by its sizes \[95, 64\]",
        ),
    ],
)
def test_weights_that_do_not_fit_are_said_and_nothing_stays(
    facts: dict[str, Any], error: type[Exception], why: str, tmp_path: Path
) -> None:
    with (
        GgufSource(write_gguf(tmp_path / "x.gguf", "llama", **facts)) as source,
        pytest.raises(error, match=why),
    ):
        write_decoder(source, tmp_path / "out", name="x")
    assert not (tmp_path / "out").exists()


def test_a_weight_that_is_no_number_is_said(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf", "llama")
    place = gguf.GGUFReader(path).get_tensor(0).data_offset
    with path.open("r+b") as file:
        file.seek(int(place) + 40)
        file.write(np.float32(np.nan).tobytes())
    with (
        GgufSource(path) as source,
        pytest.raises(ModelUnreadable, match="embedding holds numbers that are not finite"),
    ):
        write_decoder(source, tmp_path / "out", name="x")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_imported(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = write_gguf(folder / "x.gguf", "llama-3", "Q8_0")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at, byte = data.draw(st.integers(0, 9000)), data.draw(st.integers(0, 255))
        content[at] = byte
    path.write_bytes(content)
    try:
        with GgufSource(path) as source:
            write_decoder(source, folder / "out", name="x")
    except (ModelUnreadable, ModelUnsupported):
        assert not (folder / "out").exists()
