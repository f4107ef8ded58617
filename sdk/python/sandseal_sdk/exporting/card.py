"""The model card that goes into the bundle: where the model is from, what was chosen, how close it is."""

from collections.abc import Sequence
from pathlib import Path

from sandseal_sdk.exporting.comparison import OutputDifference
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.tensor import TensorSpec

CARD = "README.md"


def model_card(
    name: str,
    folder: Path,
    source: str,
    choices: Sequence[str],
    differences: Sequence[OutputDifference],
    samples: str,
) -> str:
    """A model card in Markdown.

    Args:
        folder: the bundle's, whose manifest has the tensors.
        source: what the model was.
        choices: of the export, with their reasons.
        differences: from the source's outputs.
        samples: what kind of inputs those were measured on.
    """
    manifest = parse_manifest((folder / MANIFEST).read_bytes())
    parts = [
        f"# {name}",
        f"Exported from {source}.",
        "## Tensors",
        _table(("", "name", "type", "shape"), [*_rows("input", manifest.inputs), *_rows("output", manifest.outputs)]),
        "## Export",
        "\n".join(f"* {choice}" for choice in choices),
        f"## Outputs against the source's, on {samples} inputs",
        _table(
            ("output", "elements", "largest difference", "relative", "unequal"),
            [
                (d.output, str(d.elements), f"{d.absolute:.2g}", f"{d.relative:.2g}", str(d.unequal))
                for d in differences
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def comparison_table(differences: Sequence[OutputDifference]) -> str:
    """What was measured, as a table in Markdown."""
    return _table(OutputDifference.COLUMNS, [difference.cells() for difference in differences])


def _rows(side: str, specs: Sequence[TensorSpec]) -> list[tuple[str, ...]]:
    return [(side, spec.name, str(spec.dtype), " by ".join(map(str, spec.shape)) or "one") for spec in specs]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))
