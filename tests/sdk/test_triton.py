"""Triton's model repositories become bundle folders; what is left out is said."""

from pathlib import Path

import pytest
from google.protobuf.text_format import ParseError
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import FileExists, RepositoryInvalid
from sandseal_sdk.triton import import_repository
from sandseal_sdk.triton.text_format import parse_text_format
from sandseal_signing.manifest import Batching, Manifest, parse_manifest
from support.onnx_models import OnnxModel, identity, mlp, outside

CONFIG = """
name: "Digits_MLP"  # a comment
platform: "onnxruntime_onnx"
max_batch_size: 16
input [ { name: "x" data_type: TYPE_FP32 dims: [ 128 ] } ]
output [ { name: "y", data_type: TYPE_FP32, dims: [ -1 ], label_filename: "labels.txt" } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }
instance_group [ { count: 2 kind: KIND_GPU } ]
made_up: 1
"""


def repository(folder: Path, config: str | None, model: OnnxModel | None = None, *versions: int) -> Path:
    model = model or mlp()
    for version in versions or (1,):
        place = folder / "models" / "digits" / str(version)
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(model.data)
        for name, data in model.external.items():
            (place / name).write_bytes(data)
    if config is not None:
        (folder / "models" / "digits" / "config.pbtxt").write_text(config)
    return folder / "models"


def imported(folder: Path, config: str | None, model: OnnxModel | None = None) -> Manifest:
    (model_made,) = import_repository(repository(folder, config, model), folder / "out")
    return parse_manifest((model_made.bundle / "bundle.json").read_bytes())


def test_text_format() -> None:
    text = "a: 1 a: -2 b { c: \"x\\n\" 'y' } d < e: TRUE > f: [1.5, 2e3f], g: true; h: 0x10 i [ { j: 1 }, { j: 2 } ]"
    assert parse_text_format(text) == {
        "a": [1, -2], "b": [{"c": ["x\ny"]}], "d": [{"e": ["TRUE"]}], "f": [1.5, 2000.0], "g": [True], "h": [16],
        "i": [{"j": [1]}, {"j": [2]}],
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a", "a: ", "a {", "{", "a: 1 }", "a [", 'a: "x', "a b", "1: 2"])
def test_what_is_no_text_format(text: str) -> None:
    with pytest.raises(ParseError):
        parse_text_format(text)


def test_a_model_with_its_configuration(tmp_path: Path) -> None:
    repo = repository(tmp_path, CONFIG, None, 1, 3, 10)
    (model,) = import_repository(repo, tmp_path / "out")
    assert (model.name, model.version, model.bundle) == (
        "digits-mlp".replace("-", "_"),
        10,
        tmp_path / "out/digits_mlp",
    )
    assert set(model.unmapped) == {
        "y.label_filename", "dynamic_batching.preferred_batch_size", "instance_group", "made_up",
    }  # fmt: skip
    assert "post plugin" in model.unmapped["y.label_filename"]
    manifest = parse_manifest((model.bundle / "bundle.json").read_bytes())
    assert (manifest.name, manifest.version) == ("digits_mlp", 10)
    assert manifest.model.batching == Batching(16, 100)
    assert (model.bundle / "model.onnx").read_bytes() == mlp().data


def test_a_model_without_one_is_as_its_graph_says(tmp_path: Path) -> None:
    manifest = imported(tmp_path, None)
    assert manifest.name == "digits"
    assert manifest.model.batching.max_rows == 32


def test_weights_beside_the_graph(tmp_path: Path) -> None:
    manifest = imported(tmp_path, None, outside())
    assert manifest.model.external_data == ("model.onnx.data",)
    assert (tmp_path / "out/digits/model.onnx.data").exists()


def test_what_triton_does_not_batch_is_not_batched(tmp_path: Path) -> None:
    manifest = imported(tmp_path, 'input { name: "x" data_type: TYPE_FP32 dims: [-1, 128] }')
    assert manifest.model.batching == Batching()
    assert manifest.inputs[0].shape == ("axis_batch", 128)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ('backend: "pytorch"', "only ONNX"),
        ("max_batch_size: ", "cannot be read"),
        ('max_batch_size: 4 input { name: "z" data_type: TYPE_FP32 dims: 128 }', "does not have"),
        ('max_batch_size: 4 input { name: "x" data_type: TYPE_INT8 dims: 128 }', "INT8"),
        ('max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 127 }', "127"),
        ('input { name: "x" data_type: TYPE_FP32 dims: 128 }', "128"),
        ('default_model_filename: "../../secret.onnx"', "cannot be read"),
        ('name: "!!!"', "cannot be made"),
    ],
)
def test_what_cannot_be_taken_in(tmp_path: Path, config: str, why: str) -> None:
    with pytest.raises(Exception, match=why) as caught:
        list(import_repository(repository(tmp_path, config), tmp_path / "out"))
    assert caught.value.code in ("repository_invalid", "model_unreadable")
    assert not (tmp_path / "out").exists()


def test_a_graph_without_room_for_rows(tmp_path: Path) -> None:
    with pytest.raises(RepositoryInvalid, match="leaves no axis 0 free"):
        imported(tmp_path, "max_batch_size: 4", identity(shape=(1, 4)))


def test_an_empty_repository(tmp_path: Path) -> None:
    with pytest.raises(RepositoryInvalid, match="has no model"):
        list(import_repository(tmp_path, tmp_path / "out"))


def test_the_command(tmp_path: Path) -> None:
    repo = repository(tmp_path, CONFIG)
    command = ["import", "triton", str(repo), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(build_app(), command)
    assert result.exit_code == 0, result.output
    assert result.stdout.split()[:2] == ["sandseal", "pack"]
    assert "instance_group" in result.stderr
    assert isinstance(CliRunner().invoke(build_app(), command).exception, FileExists)
