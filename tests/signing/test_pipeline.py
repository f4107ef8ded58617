"""A pipeline as its manifest says it, and which models may be its steps."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sandseal_signing.errors import ManifestInvalid
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.pipeline import Source, StepSpec
from sandseal_signing.stage import Limits
from sandseal_signing.tensor import DataType, TensorSpec
from support.manifests import chaining, changed

DATA = Path(__file__).parent / "data"
X = TensorSpec("x", DataType.FP32, ("batch", 3, "h"))
Y = TensorSpec("y", DataType.BYTES, ("batch",))
STEP = StepSpec("read", (X,), (Y,), (Source("input", "x"),), model="acme.reader")


def test_a_pipeline_of_the_released_schema_1_stays_readable() -> None:
    read = parse_manifest((DATA / "bundle-1-pipeline.json").read_bytes())
    assert read.pipeline is not None
    page, find, cut, reader = read.pipeline.steps
    assert [spec.name for spec in (*read.inputs, *read.outputs)] == ["image", "text", "box"]
    assert read.pipeline.sources == (Source("read", "text"), Source("cut", "box"))
    assert (page.stage is not None, page.model, find.stage, find.model) == (True, "", None, "acme.text-detection")
    assert find.bundle.startswith("5891b5b5")
    assert cut.sources == (Source("page", "pixels"), Source("find", "probability"))
    assert [spec.name for spec in cut.outputs] == ["line", "box"]
    assert reader.by_rows
    assert not page.by_rows
    assert read.pipeline.members == (find, reader)
    assert [*read.stages_by_name] == ["page", "cut"]
    assert read.stages[0].limits == Limits(256, 2000)
    assert read.stages[0].config == b'{"most_pixels":4000000}'
    assert read.files == {"plugins/page.wasm", "plugins/cut.wasm", "assets/notes.txt"}
    assert (read.model.file, read.model.raw, read.reserved) == ("", ("image/png", "image/jpeg"), ())


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("steps.1.inputs.0.from", "later.t", "no such step before it; there are input, cut"),
        ("steps.1.inputs.0.from", "cut.u", "cut has t"),
        ("steps.1.inputs.0.dtype", "FP64", "FP32 where FP64 is taken"),
        ("steps.1.inputs.0.shape", ["batch", 4, 1], r"shape \['batch', 4\] where"),
        ("outputs.0.from", "t", "cannot come from"),
        ("steps.1.model", "acme.tiny", "the pipeline itself"),
        ("steps.1.outputs.0.shape", ["n", 4], "rows come out as they went in"),
    ],
)
def test_what_does_not_fit_is_named(path: str, value: object, says: str) -> None:
    with pytest.raises(ManifestInvalid, match=says):
        parse_manifest(json.dumps(changed(chaining(path, value))).encode())


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ((X,), (Y,)),
        ((replace(X, shape=("batch", 3, "width")),), (Y, replace(Y, name="more"))),
        ((replace(X, shape=("batch", "channels", 48)),), (Y,)),
    ],
)
def test_a_model_may_give_more_and_have_other_free_axes(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
) -> None:
    assert STEP.misfit(inputs, outputs) is None


@pytest.mark.parametrize(
    ("inputs", "outputs", "says"),
    [
        ((replace(X, name="z"),), (Y,), "takes ['z'], not ['x']"),
        ((X, replace(X, name="z")), (Y,), "takes ['x', 'z']"),
        ((replace(X, dtype=DataType.FP16),), (Y,), "tensor 'x': FP32 where FP16"),
        ((replace(X, shape=("batch", 1, "h")),), (Y,), "tensor 'x': shape"),
        ((replace(X, shape=("batch", 3)),), (Y,), "tensor 'x': shape"),
        ((replace(X, shape=("n", 3, "h")),), (Y,), "counts rows on one side only"),
        ((X,), (replace(Y, name="z"),), "gives no 'y'"),
        ((X,), (replace(Y, dtype=DataType.FP32),), "tensor 'y': FP32 where BYTES"),
        ((X,), (replace(Y, shape=(1,)),), "counts rows on one side only"),
    ],
)
def test_a_model_of_another_signature_is_not_the_one(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], says: str
) -> None:
    assert says in (STEP.misfit(inputs, outputs) or "")
