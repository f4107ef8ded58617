"""Other precisions of a bundle's graph: measured, described, and first in the host's order."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("onnx_ir")

from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import ExportDiffers, ExportFailed, FileExists, InputInvalid
from sandseal_sdk.exporting.comparison import Graph
from sandseal_sdk.exporting.variants import add_variant, offered
from sandseal_sdk.publish import write_bundle
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.variants import Precision, VariantSpec
from support.manifests import changed, generating
from support.onnx_models import identity, mlp

ROWS = [{"x": np.random.default_rng(0).standard_normal((6, 256)).astype(np.float32)}]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "net.onnx").write_bytes(mlp((256, 256, 8)).data)
    return write_bundle(tmp_path / "net.onnx", tmp_path / "net", name="acme.net")


def test_both_precisions(bundle: Path) -> None:
    half = add_variant(bundle, Precision.FP16, ROWS, 0.01)
    eight = add_variant(bundle, Precision.INT8, ROWS, 0.05)
    manifest = parse_manifest((bundle / "bundle.json").read_bytes())
    assert manifest.model.variants == (
        VariantSpec(Precision.INT8, "model.int8.onnx", requires="cpu"),
        VariantSpec(Precision.FP16, "model.fp16.onnx", requires="cuda"),
        VariantSpec(Precision.FP32, "model.onnx"),
    )
    assert manifest.model.domains == ("", "com.microsoft")
    size = (bundle / "model.onnx").stat().st_size
    assert eight.size < half.size < 0.6 * size
    for variant in (half, eight):
        assert 0 < variant.differences[0].absolute < 0.05
    card = (bundle / "README.md").read_text()
    assert "## In FP16" in card
    assert "## In INT8" in card
    assert half.time is None
    assert eight.time is not None
    assert f"A run took {eight.time:.2f} times as long." in card


def test_a_batch_does_not_change_a_row_in_eight_bits(bundle: Path) -> None:
    add_variant(bundle, Precision.INT8, ROWS, 0.05)
    run = Graph(bundle / "model.int8.onnx").run
    row = ROWS[0]["x"][:1]
    (alone,) = run({"x": row})
    (beside,) = run({"x": np.concatenate([row, 1000 * ROWS[0]["x"]])})
    np.testing.assert_array_equal(beside[:1], alone)


def test_what_is_too_far_off_leaves_nothing_behind(bundle: Path) -> None:
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    with pytest.raises(ExportDiffers, match="INT8 output 'y'"):
        add_variant(bundle, Precision.INT8, ROWS, 1e-6)
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


def test_twice(bundle: Path) -> None:
    add_variant(bundle, Precision.FP16, ROWS, 0.01)
    with pytest.raises(FileExists):
        add_variant(bundle, Precision.FP16, ROWS, 0.01)


def test_what_cannot_be_made() -> None:
    assert offered("int8") is Precision.INT8
    with pytest.raises(InputInvalid, match="cannot be made"):
        offered("fp32")


def test_what_would_change_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "same.onnx").write_bytes(identity().data)
    folder = write_bundle(tmp_path / "same.onnx", tmp_path / "same", name="acme.same")
    with pytest.raises(ExportFailed, match="no matrix"):
        add_variant(folder, Precision.INT8, [{"x": ROWS[0]["x"]}], 0.05)
    assert sorted(path.name for path in folder.iterdir()) == ["bundle.json", "model.onnx"]


def test_folders_that_the_command_refuses(bundle: Path) -> None:
    arguments = ["variants", str(bundle), "--precision", "int8"]
    (bundle / "bundle.json").write_text(json.dumps(changed(generating())))
    assert "when it is imported" in str(CliRunner().invoke(build_app(), arguments).exception)
    (bundle / "bundle.json").unlink()
    assert "is no bundle folder" in str(CliRunner().invoke(build_app(), arguments).exception)


def test_the_command(bundle: Path) -> None:
    result = CliRunner().invoke(build_app(), ["variants", str(bundle), "--precision", "int8", "--precision", "fp16"])
    assert result.exit_code == 0, result.output
    assert "INT8" in result.stdout
    assert len(json.loads((bundle / "bundle.json").read_bytes())["model"]["variants"]) == 2
