import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from sandseal_sdk.decoders.bundle import write_decoder
from sandseal_sdk.decoders.hf_source import HfSource
from sandseal_sdk.errors import ModelUnreadable, ModelUnsupported
from support.language_models import SPECIAL, TEMPLATE, weights, write_hf


def changed(folder: Path, file: str, **members: Any) -> None:
    """Change a JSON file of a folder; None takes a member away."""
    path = folder / f"{file}.json"
    document = json.loads(path.read_bytes()) | members
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_hf(tmp_path / "hf", "llama")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_weights_of_every_kind_are_read_a_few_rows_at_a_time(dtype: Any, tmp_path: Path) -> None:
    exact = weights("llama")["model.layers.1.mlp.down_proj.weight"].astype(dtype).astype(np.float32)
    with HfSource(write_hf(tmp_path / "hf", "llama", dtype)) as source:
        weight = source.weight("layers.1.down")
        assert weight is not None
        assert weight.shape == exact.shape
        assert weight.row_bytes == exact.shape[1] * np.dtype(dtype).itemsize
        np.testing.assert_array_equal(np.concatenate([weight.rows(0, 5), weight.rows(5, len(exact))]), exact)
        norm = source.weight("norm")
        assert norm is not None
        assert norm.rows(0, 1).shape == (1, 64)


def test_weights_in_several_files_are_found_through_their_index(folder: Path) -> None:
    found = weights("llama")
    (folder / "model.safetensors").unlink()
    shards = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(found)}
    for shard in set(shards.values()):
        save_file({name: value for name, value in found.items() if shards[name] == shard}, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with HfSource(folder) as source:
        write_decoder(source, folder / "out", name="x")
        assert source.unused() == ()


def test_the_text_parts(folder: Path) -> None:
    with HfSource(folder) as source:
        text = source.text
    assert text.tokenizer == (folder / "tokenizer.json").read_bytes()
    assert text.chat_template == '{% set bos_token = "<|endoftext|>" %}' + TEMPLATE
    assert text.stop_ids == (2, 0)
    assert text.add_bos == 0
    assert text.defaults == {"temperature": 0.6, "top_k": 20, "max_tokens": 64}


def test_text_parts_that_are_said_in_other_ways(folder: Path) -> None:
    changed(folder, "generation_config", eos_token_id=None, do_sample=False)
    changed(folder, "config", eos_token_id=7)
    changed(folder, "tokenizer", post_processor={"type": "ByteLevel"})
    changed(folder, "tokenizer_config", chat_template=[{"name": "default", "template": "x{{ eos_token }}"}])
    with HfSource(folder) as source:
        assert source.text.stop_ids == (7,)
        assert source.text.add_bos is None
        assert source.text.defaults == {}
        assert source.text.chat_template == f'{{% set eos_token = "{SPECIAL[2]}" %}}x{{{{ eos_token }}}}'
    templates = [{"name": "default", "template": "x"}, {"name": "tool_use", "template": "y"}]
    changed(folder, "tokenizer_config", chat_template=templates)
    with HfSource(folder) as source:
        assert source.text.chat_template == "{% if tools %}y{% else %}x{% endif %}"
    (folder / "chat_template.jinja").write_text("from a file")
    with HfSource(folder) as source:
        assert source.text.chat_template == "from a file"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"architectures": ["BertModel"]}, "the architecture BertModel cannot be imported"),
        ({"hidden_act": "gelu"}, "the activation 'gelu'"),
        ({"use_sliding_window": True}, "a window that only some of the layers have"),
        ({"partial_rotary_factor": 0.5}, "a rotary embedding of a part of each head"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "scaled by 'longrope'"),
    ],
)
def test_what_cannot_be_imported_is_said(members: dict[str, Any], why: str, folder: Path) -> None:
    changed(folder, "config", **members)
    with pytest.raises(ModelUnsupported, match=why):
        HfSource(folder)


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("config.json", "{", "config.json cannot be read as JSON"),
        ("config.json", "[]", "config.json is not a JSON object"),
        ("config.json", "{}", "config.json says nothing for architectures"),
        ("generation_config.json", "x", "generation_config.json cannot be read as JSON"),
        ("model.safetensors", "x", "model.safetensors cannot be read as safetensors"),
    ],
)
def test_what_is_damaged_is_said(file: str, content: str, why: str, folder: Path) -> None:
    (folder / file).write_text(content)
    with pytest.raises(ModelUnreadable) as caught:
        HfSource(folder)
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("file", "error", "why"),
    [
        ("tokenizer.json", ModelUnsupported, "has no tokenizer.json"),
        ("model.safetensors", ModelUnreadable, "model.safetensors cannot be read as safetensors"),
        ("config.json", ModelUnreadable, "has no config.json"),
    ],
)
def test_what_is_missing_is_said(file: str, error: type[Exception], why: str, folder: Path) -> None:
    (folder / file).unlink()
    with pytest.raises(error, match=why):
        HfSource(folder)


def test_an_exported_graph_is_no_source(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.onnx")
    with pytest.raises(ModelUnreadable, match=r"has an ONNX graph \(model\.onnx\) and no safetensors") as caught:
        HfSource(folder)
    assert "exported from" in caught.value.hint


def test_weights_of_integers_are_refused(folder: Path) -> None:
    found = weights("llama") | {"model.norm.weight": np.ones(64, np.int8)}
    save_file(found, folder / "model.safetensors")
    with HfSource(folder) as source, pytest.raises(ModelUnsupported, match=r"the tensor model\.norm\.weight is I8"):
        write_decoder(source, folder / "out", name="x")
