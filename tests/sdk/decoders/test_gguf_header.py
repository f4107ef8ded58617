"""Damaged GGUF files give one clear error, and soon, whatever was damaged."""

import struct
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_sdk.decoders.gguf_header import GgufHeader, read_header
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported
from support.language_models import vocabulary, write_gguf


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", "llama-3", "Q8_0").read_bytes()


def read(content: bytes) -> GgufHeader:
    return read_header(content, Path("tiny.gguf"))


def header(*facts: bytes, tensors: bytes = b"", count: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, count, len(facts)) + b"".join(facts) + tensors


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def fact(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, *shape: int, kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def test_it_reads_what_the_gguf_package_reads(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(whole)
    theirs, ours = gguf.GGUFReader(tmp_path / "x.gguf"), read(whole)
    facts = {name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert ours.facts == facts
    assert ours.facts["tokenizer.ggml.tokens"] == vocabulary()
    for tensor in theirs.tensors:
        place = ours.tensors[tensor.name]
        assert place.kind is tensor.tensor_type
        assert place.shape == tuple(reversed(tensor.shape.tolist()))
        assert (place.start, place.size) == (tensor.data_offset, tensor.n_bytes)
    assert len(ours.tensors) == len(theirs.tensors)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "ends too early"),
        (b"GGUX" + bytes(20), "does not begin with 'GGUF'"),
        (b"GGUF\x03\x00\x00\x00", "ends too early"),
        (header(fact("a", 4, bytes(4)), fact("a", 4, bytes(4))), "the key 'a' stands twice"),
        (header(fact("a", 99, bytes(8))), "the unknown kind 99"),
        (header(fact("a", 9, struct.pack("<IQ", 9, 1))), "an array of the kind 9"),
        (header(fact("a", 9, struct.pack("<IQ", 0, 2**60))), "a count of 1152921504606846976 goes beyond its end"),
        (header(fact("a", 8, struct.pack("<Q", 2**63) + b"x")), "goes beyond its end"),
        (header(fact("a", 8, struct.pack("<Q", 1) + b"\xff")), "can't decode byte 0xff"),
        (header(count=2**62), "a count of 4611686018427387904 goes beyond its end"),
        (header(fact("general.alignment", 4, struct.pack("<I", 24))), "alignment 24"),
        (header(fact("general.alignment", 8, text("x"))), "alignment 'x'"),
        (header(tensors=tensor("t", 4) * 2 + bytes(96), count=2), "a tensor stands twice"),
        (header(tensors=tensor("t", 2**40, 2**40) + bytes(96), count=1), "does not fit into the file"),
        (header(tensors=tensor("t", 4, offset=2**63) + bytes(96), count=1), "does not fit into the file"),
        (header(tensors=tensor("t", 0) + bytes(96), count=1), "does not fit into the file"),
        (header(tensors=tensor("t", 33, kind=8) + bytes(96), count=1), "does not fit into the file"),
        (header(tensors=tensor("t", *[1] * 5) + bytes(96), count=1), "has 5 axes"),
    ],
)
def test_what_is_damaged_is_said(content: bytes, why: str) -> None:
    with pytest.raises(ModelUnreadable, match=r"^tiny\.gguf cannot be read as GGUF: ") as caught:
        read(content)
    assert why in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (header(version=1), "GGUF version 1"),
        (header(version=3 << 24), "of the other byte order"),
        (header(tensors=tensor("t", 4, kind=999) + bytes(96), count=1), "of kind 999"),
    ],
)
def test_what_is_of_another_kind_is_said(content: bytes, why: str) -> None:
    with pytest.raises(ModelUnsupported, match=why):
        read(content)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_is_an_error_of_ours_or_harmless(whole: bytes, data: st.DataObject) -> None:
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 9000))  # where the facts and the tensors' places are
        content[at : at + 8] = data.draw(st.sampled_from([b"\xff" * 8, bytes(8), b"\x00\x00\x00\x00\xff\xff\xff\xff"]))
    content = content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content
    try:
        found = read(bytes(content))
    except (ModelUnreadable, ModelUnsupported):
        return
    assert all(place.start + place.size <= len(content) for place in found.tensors.values())
