"""An exported graph's outputs against its source's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sandseal_sdk.errors import ExportFailed, InputInvalid
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

    output: str
    elements: int
    absolute: float
    relative: float
    unequal: int

    def excess(self, tolerance: float) -> float:
        """How much it is over the tolerance; negative when it is within."""
        return float(self.unequal) if self.unequal else self.relative - tolerance


def compare(
    run: Callable[[Arrays], Sequence[NDArray[Any]]], graph: Path, samples: Sequence[Arrays]
) -> tuple[OutputDifference, ...]:
    """Run source and graph (in ONNX Runtime on the CPU, as a host would) on the same inputs.

    Raises:
        InputInvalid: the source itself does not run on them.
        ExportFailed: the graph does not run, or gives outputs of other shapes.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    pairs = [(_run_source(run, arrays), _run(session, arrays)) for arrays in samples]
    return tuple(_difference(name, [(theirs[i], ours[i]) for theirs, ours in pairs]) for i, name in enumerate(names))


def _run_source(run: Callable[[Arrays], Sequence[NDArray[Any]]], arrays: Arrays) -> Sequence[NDArray[Any]]:
    try:
        return run(arrays)
    except Exception as error:  # whatever the publisher's own code raises
        raise InputInvalid(
            f"the source does not run on inputs of {_shapes(arrays)}: {error}", hint="give others with --samples"
        ) from error


def _run(session: Any, arrays: Arrays) -> Sequence[NDArray[Any]]:
    wanted = {node.name for node in session.get_inputs()}
    try:
        outputs: Sequence[NDArray[Any]] = session.run(None, {n: a for n, a in arrays.items() if n in wanted})
    except Exception as error:  # the package raises classes of its own for each of its status codes
        raise ExportFailed(f"the exported graph does not run on inputs of {_shapes(arrays)}: {error}") from None
    return outputs


def _shapes(arrays: Arrays) -> str:
    return ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())


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
            gap = np.abs(ours.astype(float) - theirs.astype(float))
            gap[np.isnan(ours) & np.isnan(theirs)] = 0
            absolute = max(absolute, float(gap.max()))
            relative = max(relative, float((gap / (1 + np.abs(theirs.astype(float)))).max()))
    return OutputDifference(name, elements, absolute, relative, unequal)
