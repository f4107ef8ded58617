"""One export: write the graph, compare it with its source, make the bundle folder and its model card."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from sandseal_sdk import publish
from sandseal_sdk.bundles.card import write_card
from sandseal_sdk.errors import ExportDiffers, FileExists
from sandseal_sdk.exporting.comparison import Graph, OutputDifference, compare, comparison_table
from sandseal_sdk.exporting.samples import Arrays, random_samples
from sandseal_signing.tensor import TensorSpec


class Source(Protocol):
    """A model before its export."""

    description: str
    """What it is, with the versions of the packages that made and run it."""
    inputs: Sequence[TensorSpec]
    """What it takes, in order; a named axis is free."""
    sizes: Mapping[str, int]
    """What the free axes are tried with."""

    def write(self, path: Path) -> Sequence[str]:
        """Write it as ONNX; each choice that was made, with its reason, as a sentence.

        Raises:
            ExportFailed: it cannot be expressed.
        """
        ...

    def run(self, arrays: Arrays) -> Sequence[NDArray[Any]]:
        """Its own outputs, in the order of the graph's."""
        ...


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote.

    Args:
        bundle: the folder, ready for `sandseal pack`.
        choices: what was chosen, and why.
        differences: how far the graph's outputs are from the source's, per output.
    """

    bundle: Path
    choices: tuple[str, ...]
    differences: tuple[OutputDifference, ...]


def export(
    source: Source,
    folder: Path,
    *,
    name: str,
    tolerance: float,
    samples: Sequence[Arrays] = (),
) -> Exported:
    """Write a bundle folder for a model of another kind.

    Args:
        source: the model.
        folder: the bundle folder to write; must not be there yet.
        tolerance: how far outputs may be from the source's, relative and absolute.
        samples: inputs to compare with; two sets of random ones, of different sizes, when empty.

    Raises:
        FileExists: the folder is already there.
        ExportFailed: the source cannot be expressed in ONNX.
        ExportDiffers: the graph answers something else than the source.
    """
    if folder.exists():
        raise FileExists(f"{folder} is already there", hint="give another --out, or move it away")
    what = "given" if samples else "random"
    samples = samples or random_samples(source.inputs, source.sizes)
    with tempfile.TemporaryDirectory() as scratch:
        graph = Path(scratch) / "model.onnx"
        choices = tuple(source.write(graph))
        differences = compare(source.run, Graph(graph), samples)
        worst = max(differences, key=lambda difference: difference.excess(tolerance))
        if worst.excess(tolerance) > 0:
            raise ExportDiffers(
                f"output {worst.output!r} of the exported graph is up to {worst.absolute:.3g} from the source's",
                hint="look at the operators that the exporter replaced; --tolerance accepts a larger difference",
                output=worst.output,
            )
        publish.write_bundle(graph, folder, name=name, metadata={"source": source.description})
    heading, figures = f"## Outputs against the source's, on {what} inputs", comparison_table(differences)
    write_card(folder, f"Exported from {source.description}.", choices, heading, figures)
    return Exported(folder, choices, differences)
