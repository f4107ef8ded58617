import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_sdk.decoders.genai_folder import copy_decoder
from sandseal_sdk.errors import FileExists, ModelUnreadable, ModelUnsupported
from sandseal_signing.manifest import parse_manifest
from support.decoders import decoder
from support.imported_decoders import opened
from support.language_models import TEMPLATE, write_hf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A graph in the builder's form, its weights beside it, with the files that the builder writes."""
    built = write_hf(tmp_path / "built", "llama")
    (built / "model.safetensors").unlink()
    graph = onnx.load_model_from_string(decoder(masked=True).data)
    outside = {"save_as_external_data": True, "location": "model.onnx.data", "size_threshold": 64}
    onnx.save_model(graph, str(built / "model.onnx"), **outside)
    inputs = {
        "input_ids": "input_ids",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    }
    model = {
        "type": "llama",
        "context_length": 256,
        "eos_token_id": [2],
        "decoder": {"filename": "model.onnx", "inputs": inputs},
    }
    (built / "genai_config.json").write_text(json.dumps({"model": model}))
    return built


def changed(folder: Path, change: Any) -> None:
    path = folder / "genai_config.json"
    document = json.loads(path.read_bytes())
    change(document["model"])
    path.write_text(json.dumps(document))


def test_the_builders_folder_becomes_a_bundle_that_runs(folder: Path, tmp_path: Path) -> None:
    copied: list[int] = []
    copy_decoder(folder, tmp_path / "out", name="acme.chat", progress=copied.append)
    manifest = parse_manifest((tmp_path / "out" / "bundle.json").read_bytes())
    assert manifest.model.external_data == ("model.onnx.data",)
    assert manifest.model.domains == ("", "com.microsoft")
    assert manifest.generation is not None
    assert manifest.generation.context == 256
    assert manifest.generation.stop_ids == (2, 0)
    assert manifest.generation.chat_template
    assert TEMPLATE in (tmp_path / "out" / manifest.generation.chat_template).read_text()
    assert sum(copied) == sum((folder / name).stat().st_size for name in ("model.onnx", "model.onnx.data"))
    with opened(tmp_path / "out") as running:
        assert np.isfinite(running.prefill(0, [1, 2, 3], 0)).all()
    with pytest.raises(FileExists):
        copy_decoder(folder, tmp_path / "out", name="acme.chat")


def test_the_command(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(build_app(), ["import", "genai", str(folder), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert f"sandseal pack {tmp_path / 'out'} --key KEY" in done.stdout
    assert parse_manifest((tmp_path / "out" / "bundle.json").read_bytes()).name == "built"


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        (lambda m: m["decoder"]["inputs"].update(past_key_names="k.%d"), ModelUnsupported, "are called 'k.%d', not"),
        (lambda m: m["decoder"].update(filename="absent.onnx"), ModelUnreadable, "absent.onnx cannot be read as ONNX"),
        (lambda m: m.pop("decoder"), ModelUnreadable, "says nothing for input_ids"),
        (lambda m: m.pop("context_length"), ModelUnreadable, "says nothing for context_length"),
    ],
)
def test_another_form_is_said(change: Any, error: type[Exception], why: str, folder: Path, tmp_path: Path) -> None:
    changed(folder, change)
    with pytest.raises(error, match=why):
        copy_decoder(folder, tmp_path / "out", name="x")
    assert not (tmp_path / "out").exists()


def test_weights_that_are_missing_or_outside_are_said(folder: Path, tmp_path: Path) -> None:
    (folder / "model.onnx.data").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelUnreadable, match="cannot be copied"):
        copy_decoder(folder, tmp_path / "out", name="x")
    graph = onnx.load(folder / "model.onnx", load_external_data=False)
    for weight in graph.graph.initializer:
        for entry in (e for e in weight.external_data if e.key == "location"):
            entry.value = "../elsewhere"
    onnx.save_model(graph, str(folder / "model.onnx"))
    with pytest.raises(ModelUnreadable, match=r"keeps weights outside of its folder: \.\./elsewhere"):
        copy_decoder(folder, tmp_path / "out", name="x")


def test_a_graph_without_grouped_attention_is_refused(folder: Path, tmp_path: Path) -> None:
    graph = onnx.load(folder / "model.onnx", load_external_data=False)
    for node in graph.graph.node:
        node.op_type = "Attention" if node.op_type == "GroupQueryAttention" else node.op_type
    onnx.save_model(graph, str(folder / "model.onnx"))
    with pytest.raises(ModelUnsupported, match="each step would copy all keys and values"):
        copy_decoder(folder, tmp_path / "out", name="x")
