"""Imported models answer as transformers does; its logits are in data/, written by tests/oracles/decoder_logits.py."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sandseal_sdk.decoders.gguf_source import GgufSource
from sandseal_sdk.decoders.hf_source import HfSource
from sandseal_sdk.decoders.precision import Precision
from sandseal_sdk.decoders.source import DecoderSource
from support.imported_decoders import imported
from support.language_models import CONFIGS, TINY_PROMPT, smollm2, write_gguf, write_hf

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "logits.json").read_bytes())
STEP = 512  # of SmolLM2's logits, every so many are kept


def source_of(kind: str, name: str, folder: Path) -> DecoderSource:
    return HfSource(write_hf(folder / "hf", name)) if kind == "hf" else GgufSource(write_gguf(folder / "gguf", name))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", ["hf", "gguf"])
def test_tiny_models_of_every_architecture_answer_as_transformers_does(kind: str, name: str, tmp_path: Path) -> None:
    with imported(source_of(kind, name, tmp_path), tmp_path / "bundle") as decoder:
        whole = decoder.prefill(0, TINY_PROMPT, 0).copy()
        np.testing.assert_allclose(whole, GOLDEN["tiny"][name], atol=2e-5)
        decoder.prefill(1, TINY_PROMPT[:17], 0)  # in chunks, the last of one token
        decoder.prefill(1, TINY_PROMPT[17:-1], 17)
        stepped = decoder.prefill(1, TINY_PROMPT[-1:], len(TINY_PROMPT) - 1)
        np.testing.assert_allclose(stepped, whole, atol=2e-5)


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("f16", 0.02), ("int8", 0.2), ("int8-f16", 0.2), ("int4", 1.0), ("int4-f16", 1.0)]
)
@pytest.mark.parametrize("name", ["llama", "llama-tied", "qwen2"])
def test_fewer_bits_answer_nearly_the_same(name: str, precision: str, tolerance: float, tmp_path: Path) -> None:
    with imported(source_of("hf", name, tmp_path), tmp_path / "bundle", Precision(precision)) as decoder:
        logits = decoder.prefill(0, TINY_PROMPT, 0)
        wanted = np.array(GOLDEN["tiny"][name])
        assert np.sqrt(np.mean((logits - wanted) ** 2)) < tolerance * wanted.std()


class Gateless(GgufSource):
    """A model whose MLPs give rows of zeros, which have no scale."""

    def weight(self, name: str) -> Any:
        found = super().weight(name)
        if found is None or not name.endswith(".gate"):
            return found
        zeros = lambda start, stop: np.zeros((stop - start, found.shape[-1]), np.float32)  # noqa: E731
        return SimpleNamespace(shape=found.shape, row_bytes=found.row_bytes, rows=zeros)


def test_rows_of_zeros_stay_zeros_in_eight_bits(tmp_path: Path) -> None:
    found = {}
    for precision in (Precision.F32, Precision.INT8):
        with imported(Gateless(write_gguf(tmp_path / "x", "llama")), tmp_path / precision, precision) as decoder:
            found[precision] = decoder.prefill(0, TINY_PROMPT, 0).copy()
    wanted = found[Precision.F32]
    assert np.sqrt(np.mean((found[Precision.INT8] - wanted) ** 2)) < 0.2 * wanted.std()


def test_rows_in_eight_bits_answer_alike_alone_and_in_a_batch(tmp_path: Path) -> None:
    with imported(GgufSource(write_gguf(tmp_path / "x", "llama")), tmp_path / "b", Precision.INT8) as decoder:
        decoder.prefill(0, TINY_PROMPT[:9], 0)
        decoder.prefill(1, TINY_PROMPT, 0)
        alone = decoder.decode([5], [9])[0].copy()
        together = decoder.decode([5, 3], [9, len(TINY_PROMPT)])[0]
        assert np.sqrt(np.mean((together - alone) ** 2)) < 0.02 * alone.std()


@pytest.mark.slow
def test_smollm2_answers_as_transformers_does(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    with imported(GgufSource(smollm2()), tmp_path / "bundle", slots=1) as decoder:
        tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "bundle" / "tokenizer.json"))
        for golden in GOLDEN["smollm2"]:
            ids = tokenizer.encode(golden["prompt"], add_special_tokens=False).ids
            assert ids == golden["ids"]
            assert tokenizer.decode(ids, skip_special_tokens=False) == golden["prompt"]
            logits = decoder.prefill(0, ids, 0)
            assert np.abs(logits[::STEP] - golden["logits"]).max() < 1e-3
            for position, token in enumerate(golden["greedy"], start=len(ids)):
                assert int(logits.argmax()) == token
                logits = decoder.decode([token], [position])[0]
