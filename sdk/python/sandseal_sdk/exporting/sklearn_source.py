"""A fitted scikit-learn estimator as the source of an export."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import skl2onnx
import sklearn
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from sandseal_sdk.errors import ExportFailed, ModelUnreadable
from sandseal_sdk.exporting.samples import Arrays
from sandseal_signing.tensor import DataType, TensorSpec


class SklearnSource:
    """An estimator that takes one row of numbers per item.

    Args:
        estimator: fitted; a pipeline counts as one.
        opset: the version of ONNX's operators; None for skl2onnx's own choice.

    Raises:
        ExportFailed: not fitted, or not on rows of numbers.
    """

    def __init__(self, estimator: Any, *, opset: int | None = None) -> None:
        width = getattr(estimator, "n_features_in_", None)
        if width is None:
            raise ExportFailed("the estimator is not fitted on rows of numbers", hint="call fit first, then save it")
        self._estimator, self._opset = estimator, opset
        self.description = f"{type(estimator).__name__} of scikit-learn {sklearn.__version__}"
        self.inputs: Sequence[TensorSpec] = [TensorSpec("X", DataType.FP32, ("batch", int(width)))]
        self.sizes: Mapping[str, int] = {"batch": 64}

    @classmethod
    def load(cls, path: Path, *, opset: int | None = None) -> "SklearnSource":
        """Read an estimator that joblib or pickle wrote, which runs whatever code the file holds.

        Raises:
            ModelUnreadable: not such a file.
        """
        try:
            estimator = joblib.load(path)
        except Exception as error:  # whatever the file's bytes make of unpickling
            raise ModelUnreadable(f"{path} cannot be read by joblib: {type(error).__name__}: {error}") from None
        return cls(estimator, opset=opset)

    def write(self, path: Path) -> Sequence[str]:
        """Convert it with skl2onnx."""
        options = {id(self._estimator): {"zipmap": False}} if is_classifier(self._estimator) else None
        first = np.zeros((1, int(self.inputs[0].shape[1])), np.float32)
        try:
            model = skl2onnx.to_onnx(self._estimator, first, options=options, target_opset=self._opset)
        except (RuntimeError, NotImplementedError, NameError, ValueError) as error:
            raise ExportFailed(f"skl2onnx {skl2onnx.__version__} cannot convert it: {error}") from None
        path.write_bytes(model.SerializeToString())
        opset = next(entry.version for entry in model.opset_import if not entry.domain)
        chosen = "as asked" if self._opset else f"the newest that skl2onnx {skl2onnx.__version__} writes"
        choices = [
            f"Operators of ONNX's opset {opset}: {chosen}.",
            "FP32 inputs: what the graph computes in; the estimator itself computes in FP64.",
        ]
        if options:
            choices.append("Probabilities are a tensor of one column per class: ZipMap's lists of maps are left out.")
        return choices

    def run(self, arrays: Arrays) -> Sequence[NDArray[Any]]:
        """What the estimator predicts, in the order of skl2onnx's outputs."""
        rows = arrays["X"]
        if is_classifier(self._estimator):
            return [self._estimator.predict(rows), self._estimator.predict_proba(rows)]
        if is_regressor(self._estimator):
            predicted = self._estimator.predict(rows)
            return [predicted if predicted.ndim > 1 else predicted[:, None]]
        if hasattr(self._estimator, "transform"):
            return [np.asarray(self._estimator.transform(rows))]
        raise ExportFailed(f"{type(self._estimator).__name__} is no classifier, regressor or transformer")
