"""An exported graph's outputs against its source's."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sandseal_sdk.bundles.card import markdown_table
from sandseal_sdk.errors import ExportFailed, InputInvalid, SdkError
from sandseal_sdk.exporting.samples import Arrays


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """How far one output is from the source's, over all samples.

    Args:
        output: its name in the graph.
        elements: how many were compared.
        absolute: the largest difference.
        relative: the largest difference in relation to the source's value plus one, so that near zero it is absolute.
        unequal: elements that are not numbers with a fraction, and differ.
    """

    COLUMNS: ClassVar = ("output", "elements", "largest difference", "relative", "unequal")

    output: str
    elements: int
    absolute: float
    relative: float
    unequal: int

    def cells(self) -> tuple[str, ...]:
        """What stands in a table's columns."""
        return self.output, str(self.elements), f"{self.absolute:.2g}", f"{self.relative:.2g}", str(self.unequal)

    def excess(self, tolerance: float) -> float:
        """How much it is over the tolerance; negative when it is within."""
        return float(self.unequal) if self.unequal else self.relative - tolerance


def comparison_table(differences: Sequence[OutputDifference]) -> str:
    """What was measured, as a table in Markdown."""
    return markdown_table(OutputDifference.COLUMNS, [difference.cells() for difference in differences])


class Graph:
    """An ONNX file in ONNX Runtime on the CPU, as a host would run it."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._inputs = {node.name for node in self._session.get_inputs()}
        self.outputs = [node.name for node in self._session.get_outputs()]

    def run(self, arrays: Arrays) -> Sequence[NDArray[Any]]:
        """Its outputs, in order; inputs that it does not have are left out."""
        outputs = self._session.run(None, {name: data for name, data in arrays.items() if name in self._inputs})
        return [np.asarray(output) for output in outputs]


def compare(
    source: Callable[[Arrays], Sequence[NDArray[Any]]], graph: Graph, samples: Sequence[Arrays]
) -> tuple[OutputDifference, ...]:
    """Run source and graph on the same inputs.

    Raises:
        InputInvalid: the source itself does not run on them.
        ExportFailed: the graph does not run, or gives outputs of other shapes.
    """
    pairs = []
    for arrays in samples:
        with _explained("the source", arrays, InputInvalid, "give others with --samples"):
            theirs = source(arrays)
        with _explained("the graph", arrays, ExportFailed, None):
            pairs.append((theirs, graph.run(arrays)))
    return tuple(
        _difference(name, [(theirs[i], ours[i]) for theirs, ours in pairs]) for i, name in enumerate(graph.outputs)
    )


def relative_time(graph: Graph, own: Graph, samples: Sequence[Arrays]) -> float:
    """How long a graph takes on the samples in relation to another one, here: each the quickest of five turns."""
    times: dict[Graph, list[float]] = {graph: [], own: []}
    for _ in range(5):
        for each, taken in times.items():
            began = perf_counter()
            for arrays in samples:
                each.run(arrays)
            taken.append(perf_counter() - began)
    return min(times[graph]) / min(times[own])


@contextmanager
def _explained(who: str, arrays: Arrays, kind: type[SdkError], hint: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # ONNX Runtime has a class for each status code, publishers' code any
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise kind(f"{who} does not run on inputs of {shapes}: {error}", hint=hint) from error


def _difference(name: str, pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> OutputDifference:
    absolute = relative = 0.0
    unequal = elements = 0
    for theirs, ours in pairs:
        if theirs.shape != ours.shape:
            raise ExportFailed(f"output {name!r} has shape {list(ours.shape)}, the source's {list(theirs.shape)}")
        elements += ours.size
        if ours.dtype.kind != "f":
            unequal += int((theirs.astype(str) != ours.astype(str)).sum())
        elif ours.size:
            gap = _gap(theirs.astype(float), ours.astype(float))
            absolute = max(absolute, float(gap.max()))
            relative = max(relative, float((gap / (1 + np.nan_to_num(np.abs(theirs.astype(float))))).max()))
    return OutputDifference(name, elements, absolute, relative, unequal)


def _gap(theirs: NDArray[np.float64], ours: NDArray[np.float64]) -> NDArray[np.float64]:
    """The differences; infinite where only one of them is a number."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(ours - theirs)
    gap[(ours == theirs) | (np.isnan(ours) & np.isnan(theirs))] = 0
    return np.nan_to_num(gap, nan=np.inf, posinf=np.inf)
