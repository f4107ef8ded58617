"""Exports end in a bundle folder with a model card, or in a reason and nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_sdk.errors import ExportDiffers, ExportFailed, FileExists, InputInvalid
from sandseal_sdk.exporting import export
from sandseal_sdk.exporting.comparison import compare
from sandseal_sdk.exporting.onnx_source import OnnxSource
from sandseal_sdk.exporting.samples import Arrays, random_arrays, read_arrays, read_input
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.tensor import DataType, TensorSpec
from support.onnx_models import build, identity, mlp


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(mlp().data)
    return path


class Lying(OnnxSource):
    """A source whose graph answers something else."""

    def run(self, arrays: Arrays) -> Sequence[Any]:
        (y,) = super().run(arrays)
        return [y + np.float32(0.01)]


def test_an_onnx_file(graph: Path, tmp_path: Path) -> None:
    exported = export(OnnxSource(graph), tmp_path / "out", name="net", tolerance=0)
    (difference,) = exported.differences
    assert (difference.output, difference.absolute, difference.unequal) == ("y", 0, 0)
    manifest = parse_manifest((exported.bundle / "bundle.json").read_bytes())
    assert manifest.metadata["source"] == "the ONNX file net.onnx of an unnamed producer"
    card = (exported.bundle / "README.md").read_text()
    assert "opset 17, as in the file" in card
    assert "| input | x | FP32 | batch by 128 |" in card
    with pytest.raises(FileExists):
        export(OnnxSource(graph), tmp_path / "out", name="net", tolerance=0)


def test_another_opset(graph: Path, tmp_path: Path) -> None:
    exported = export(OnnxSource(graph, opset=20), tmp_path / "out", name="net", tolerance=1e-6)
    assert exported.choices == ("Operators converted from ONNX's opset 17 to 20, as asked.",)
    with pytest.raises(ExportFailed, match="does not convert"):
        export(OnnxSource(graph, opset=2), tmp_path / "older", name="net", tolerance=1e-6)


def test_freed_rows_are_compared_with_the_original_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "one.onnx"
    path.write_bytes(identity(shape=(1, 4)).data)
    exported = export(OnnxSource(path, free_rows=True), tmp_path / "out", name="one", tolerance=0)
    assert parse_manifest((exported.bundle / "bundle.json").read_bytes()).inputs[0].shape == ("batch", 4)


def test_rows_that_are_not_independent_are_not_freed(tmp_path: Path) -> None:
    from onnx import helper

    path = tmp_path / "mix.onnx"
    mixing = [helper.make_node("ReduceMax", ["x"], ["m"], axes=[0]), helper.make_node("Sub", ["x", "m"], ["y"])]
    spec = ("FP32", (1, 4))
    path.write_bytes(build(mixing, [("x", DataType(spec[0]), spec[1])], [("y", DataType(spec[0]), spec[1])]).data)
    with pytest.raises(ExportDiffers, match="output 'y'"):
        export(OnnxSource(path, free_rows=True), tmp_path / "out", name="mix", tolerance=1e-3)
    assert not (tmp_path / "out").exists()


def test_a_graph_that_answers_something_else(graph: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportDiffers, match=r"up to 0\.01"):
        export(Lying(graph), tmp_path / "out", name="net", tolerance=1e-3)
    assert not (tmp_path / "out").exists()
    assert export(Lying(graph), tmp_path / "out", name="net", tolerance=0.1).bundle.exists()


@pytest.mark.parametrize(
    ("theirs", "ours", "differ"),
    [
        ([1, np.nan], [1, np.nan], False),
        ([np.inf, 1], [np.inf, 1], False),
        ([1, 1], [1, np.nan], True),
        ([np.nan, 1], [1, 1], True),
        ([1, 1], [1, np.inf], True),
        ([np.inf, 1], [-np.inf, 1], True),
    ],
)
def test_what_is_no_number_is_compared_too(theirs: list[float], ours: list[float], differ: bool) -> None:
    class Given:
        outputs = ("y",)

        def run(self, _: Arrays) -> Sequence[Any]:
            return [np.array(ours, np.float32)]

    (difference,) = compare(lambda _: [np.array(theirs, np.float32)], Given(), [{}])
    assert (difference.excess(1e30) > 0) is differ


def test_inputs_as_written() -> None:
    spec, sizes = read_input("image:FP32:batch,3,height=224,width")
    assert spec == TensorSpec("image", DataType.FP32, ("batch", 3, "height", "width"))
    assert sizes == {"batch": 2, "height": 224, "width": 16}
    assert read_input("x:INT64:") == (TensorSpec("x", DataType.INT64, ()), {})
    for wrong in ("x", "x:FP32", "x:FP31:2", "x:FP32:0", "x:FP32:a=", "x:FP32:a,=3", "1:FP32:2"):
        with pytest.raises(InputInvalid):
            read_input(wrong)


def test_given_samples(graph: Path, tmp_path: Path) -> None:
    source = OnnxSource(graph)
    np.savez(tmp_path / "good.npz", x=np.ones((3, 128)))
    read = read_arrays(tmp_path / "good.npz", source.inputs)
    assert read["x"].dtype == np.float32
    exported = export(source, tmp_path / "out", name="net", tolerance=0, samples=[read])
    assert exported.differences[0].elements == 30
    assert "on given inputs" in (exported.bundle / "README.md").read_text()
    np.savez(tmp_path / "other.npz", z=np.ones(3))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 broken")
    for name in ("other", "broken", "missing"):
        with pytest.raises(InputInvalid):
            read_arrays(tmp_path / f"{name}.npz", source.inputs)
    with pytest.raises(InputInvalid, match="source does not run on inputs of x"):
        export(source, tmp_path / "narrow", name="net", tolerance=0, samples=[{"x": np.ones((3, 7), np.float32)}])


def test_text_is_not_drawn() -> None:
    with pytest.raises(InputInvalid, match="takes text"):
        random_arrays([TensorSpec("s", DataType.BYTES, (1,))], {}, 0)


def test_the_command(graph: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(build_app(), ["export", "onnx", str(graph), "--out", str(tmp_path / "net")])
    assert result.exit_code == 0, result.output
    assert f"sandseal pack {tmp_path / 'net'} --key KEY" in result.stdout.replace("\n", "")
    assert parse_manifest((tmp_path / "net/bundle.json").read_bytes()).name == "net"
