"""Estimators answer the same as ONNX graphs."""

from pathlib import Path

import numpy as np
import pytest

joblib = pytest.importorskip("joblib")
pytest.importorskip("skl2onnx")

from sklearn.cluster import DBSCAN  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from sandseal_sdk.errors import ExportFailed, ModelUnreadable  # noqa: E402
from sandseal_sdk.exporting import export  # noqa: E402
from sandseal_sdk.exporting.sklearn_source import SklearnSource  # noqa: E402
from sandseal_signing.manifest import parse_manifest  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
NUMBERS = (X @ [1, -2, 0.5, 0]) + 0.1
CLASSES = (NUMBERS > 0).astype(int) + (NUMBERS > 1)
NAMES = np.array(["setosa", "versicolor", "virginica"])[CLASSES]


@pytest.mark.parametrize(
    ("estimator", "answer", "outputs"),
    [
        (LogisticRegression(), CLASSES, ["label INT64", "probabilities FP32"]),
        (make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)), NAMES,
         ["label BYTES", "probabilities FP32"]),
        (Ridge(), NUMBERS, ["variable FP32"]),
        (StandardScaler(), None, ["variable FP32"]),
    ],
    ids=["classifier", "pipeline with names", "regressor", "transformer"],
)  # fmt: skip
def test_what_estimators_answer(estimator, answer, outputs, tmp_path: Path) -> None:
    path = tmp_path / "model.joblib"
    joblib.dump(estimator.fit(X, answer), path)
    exported = export(SklearnSource.load(path), tmp_path / "out", name="iris", tolerance=1e-4)
    manifest = parse_manifest((exported.bundle / "bundle.json").read_bytes())
    assert [f"{tensor.name} {tensor.dtype}" for tensor in manifest.outputs] == outputs
    assert manifest.inputs[0].shape == ("batch", 4)
    assert any("ZipMap" in choice for choice in exported.choices) == (len(outputs) == 2)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(ExportFailed, match="not fitted"):
        SklearnSource(Ridge())
    with pytest.raises(ExportFailed, match="skl2onnx"):
        export(SklearnSource(DBSCAN().fit(X)), tmp_path / "out", name="x", tolerance=1)
    for damaged in (b"nothing", b"x\n"):  # as pickle, and as zlib
        (tmp_path / "broken.joblib").write_bytes(damaged)
        with pytest.raises(ModelUnreadable):
            SklearnSource.load(tmp_path / "broken.joblib")
