"""The folder that an import writes, and the memory that it takes."""

import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sandseal_sdk.decoders import rope
from sandseal_sdk.decoders.bundle import write_decoder
from sandseal_sdk.decoders.gguf_source import GgufSource
from sandseal_sdk.decoders.precision import Precision
from sandseal_sdk.decoders.source import DecoderShape, TextParts
from sandseal_sdk.errors import FileExists
from sandseal_signing.errors import ManifestInvalid
from sandseal_signing.manifest import TEXT_INPUT, TEXT_OUTPUT, parse_manifest
from support.language_models import write_gguf

VOCAB, WIDTH = 200_000, 64


class Blank:
    """A model of zeros with a large vocabulary, which takes no memory."""

    shape = DecoderShape(VOCAB, WIDTH, 1, 2, 1, 32, WIDTH, 64, 1e-5, rope.plain(10_000.0, 32))
    text, description, licence, size = TextParts(b"{}"), "blank", "", 0

    def weight(self, name: str) -> Any:
        rows = {"embedding": VOCAB, "key": 32, "value": 32}.get(name.rpartition(".")[2], WIDTH)
        if name == "head" or name.endswith("bias"):
            return None
        shape = (WIDTH,) if name.endswith("norm") else (rows, WIDTH)
        return SimpleNamespace(shape=shape, row_bytes=1, rows=lambda a, b: np.zeros((b - a, WIDTH), np.float32))

    def unused(self) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize("precision", ["f32", "int8", "int4"])
def test_memory_does_not_grow_with_the_weights(precision: str, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        write_decoder(Blank(), tmp_path / "out", name="x", precision=Precision(precision))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 * VOCAB * WIDTH  # bytes of the embedding, which int8 and int4 read twice


def test_the_folder_and_its_progress(tmp_path: Path) -> None:
    done: list[int] = []
    with GgufSource(write_gguf(tmp_path / "x.gguf", "llama-tied", "Q8_0")) as source:
        write_decoder(
            source, tmp_path / "out", name="acme.x", precision=Precision.INT8, context=48, progress=done.append
        )
        assert sum(done) == source.size
    names = ["README.md", "bundle.json", "chat_template.jinja", "model.onnx", "model.onnx.data", "tokenizer.json"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    manifest = parse_manifest((tmp_path / "out" / "bundle.json").read_bytes())
    assert (manifest.inputs, manifest.outputs) == ((TEXT_INPUT,), (TEXT_OUTPUT,))
    assert manifest.files == {*names} - {"README.md", "bundle.json"}
    assert manifest.metadata == {"source": "Tiny (x.gguf)", "precision": "int8", "licence": "mit"}
    assert manifest.generation is not None
    assert (manifest.generation.context, manifest.generation.stop_ids) == (48, (2, 0))
    card = (tmp_path / "out" / "README.md").read_text()
    for said in (
        "# acme.x",
        "from Tiny (x.gguf)",
        "its licence",
        "mit",
        "int8, in blocks of 32",
        "at most 48 positions",
        "2, 0",
    ):
        assert said.lower() in card.lower()


def test_what_is_there_stays_and_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with GgufSource(write_gguf(tmp_path / "x.gguf", "llama", general__sampling__top_p=7.0)) as source:
        with pytest.raises(ManifestInvalid, match=r"generation\.defaults\.top_p"):
            write_decoder(source, tmp_path / "out", name="x")
        assert not (tmp_path / "out").exists()
        (tmp_path / "out").mkdir()
        with pytest.raises(FileExists):
            write_decoder(source, tmp_path / "out", name="x")
    assert (tmp_path / "out").exists()
