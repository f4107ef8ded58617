"""Triton's model repositories become bundle folders; what is left out is said."""

from pathlib import Path

import pytest
from google.protobuf.text_format import ParseError
from onnx import helper
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import FileExists, RepositoryInvalid
from sandseal_sdk.triton import import_repository
from sandseal_sdk.triton.text_format import parse_text_format
from sandseal_signing.errors import ManifestInvalid
from sandseal_signing.manifest import Batching, Manifest, parse_manifest
from sandseal_signing.state import StateSpec
from sandseal_signing.tensor import DataType
from support.onnx_models import OnnxModel, build, identity, mlp, outside

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


SEQUENCES = """
max_batch_size: 4
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  control_input [ { name: "start" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
  state [
    {
      input_name: "sum" output_name: "next" data_type: TYPE_FP32 dims: [ 2 ]
      initial_state: { name: "zero" data_type: TYPE_FP32 dims: [ 2 ] zero_data: true }
    }
  ]
  oldest { max_candidate_sequences: 8 max_queue_delay_microseconds: 300 }
}
"""


def summing(width: int | str = "n") -> OnnxModel:
    """y = next = sum + x + start."""
    nodes = [
        helper.make_node("Add", ["sum", "x"], ["both"]),
        helper.make_node("Add", ["both", "start"], ["next"]),
        helper.make_node("Identity", ["next"], ["y"]),
    ]
    sides = (("sum", "x", "start"), ("y", "next"))
    shapes = {"start": ("batch", 1)}
    return build(nodes, *([(n, DataType.FP32, shapes.get(n, ("batch", width))) for n in side] for side in sides))


def test_sequences(tmp_path: Path) -> None:
    (model,) = import_repository(repository(tmp_path, SEQUENCES, summing()), tmp_path / "out")
    manifest = parse_manifest((model.bundle / "bundle.json").read_bytes())
    assert manifest.model.state == (StateSpec("sum", "next"),)
    assert manifest.model.batching == Batching(4, 300)
    shapes = {spec.name: spec.shape for spec in (*manifest.model.inputs, *manifest.model.outputs)}
    assert shapes["sum"] == shapes["next"] == ("batch", 2)  # which the graph leaves free
    assert [spec.name for spec in manifest.inputs] == ["x", "start"]
    assert set(model.unmapped) == {
        "sequence_batching.max_sequence_idle_microseconds",
        "sequence_batching.control_input.start",
        "sequence_batching.oldest.max_candidate_sequences",
    }


def test_sequences_in_slots(tmp_path: Path) -> None:
    direct = SEQUENCES.replace("oldest { max_candidate_sequences: 8", "direct { minimum_slot_utilization: 0.5")
    (model,) = import_repository(repository(tmp_path, direct, summing()), tmp_path / "out")
    assert parse_manifest((model.bundle / "bundle.json").read_bytes()).model.batching == Batching(4, 300)
    assert "sequence_batching.direct.minimum_slot_utilization" in model.unmapped


def test_sequences_without_batches(tmp_path: Path) -> None:
    config = SEQUENCES.replace("max_batch_size: 4", "").replace("dims: [ 2 ]", "dims: [ 1, 2 ]")
    manifest = imported(tmp_path, config, summing())
    assert manifest.model.inputs[0].shape == (1, 2)


def test_sequences_without_states(tmp_path: Path) -> None:
    config = 'max_batch_size: 4 sequence_batching { control_input [ { name: "x" } ] }'
    (model,) = import_repository(repository(tmp_path, config), tmp_path / "out")
    assert list(model.unmapped) == ["sequence_batching"]


def test_initial_states(tmp_path: Path) -> None:
    config = SEQUENCES.replace("zero_data: true", 'data_file: "begin"')
    models = repository(tmp_path, config, summing())
    with pytest.raises(RepositoryInvalid, match="cannot be read"):
        list(import_repository(models, tmp_path / "out"))
    begin = models / "digits" / "initial_state" / "begin"
    begin.parent.mkdir()
    begin.write_bytes(bytes(7) + b"\x01")
    with pytest.raises(RepositoryInvalid, match="'sum' begins with begin"):
        list(import_repository(models, tmp_path / "out"))
    begin.write_bytes(bytes(8))
    assert len(list(import_repository(models, tmp_path / "out"))) == 1


def test_a_state_without_a_size(tmp_path: Path) -> None:
    with pytest.raises(ManifestInvalid, match="no size at the start"):
        imported(tmp_path, SEQUENCES.replace("dims: [ 2 ]", "dims: [ -1 ]"), summing())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("enable", "cached"), [("true", True), ("false", False)])
def test_kept_answers(tmp_path: Path, enable: str, *, cached: bool) -> None:
    config = f"max_batch_size: 4 response_cache {{ enable: {enable} }}"
    (model,) = import_repository(repository(tmp_path, config), tmp_path / "out")
    assert parse_manifest((model.bundle / "bundle.json").read_bytes()).model.cache is cached
    assert not model.unmapped


def test_answers_of_sequences_are_not_kept(tmp_path: Path) -> None:
    models = repository(tmp_path, SEQUENCES + "response_cache { enable: true }", summing())
    (model,) = import_repository(models, tmp_path / "out")
    assert not parse_manifest((model.bundle / "bundle.json").read_bytes()).model.cache
    assert "response_cache" in model.unmapped


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
