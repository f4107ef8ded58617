"""The model card that goes into the bundle: where the model is from, what was chosen, what was measured."""

from collections.abc import Sequence
from pathlib import Path

from sandseal_signing.manifest import parse_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.tensor import TensorSpec

CARD = "README.md"


def write_card(folder: Path, origin: str, choices: Sequence[str], *more: str) -> None:
    """Write a bundle folder's model card, in Markdown.

    Args:
        folder: its manifest has the model's name and tensors.
        origin: what the model was, as a sentence.
        choices: of how it was made, with their reasons.
        more: what follows, paragraph by paragraph.
    """
    manifest = parse_manifest((folder / MANIFEST).read_bytes())
    tensors = [*_rows("input", manifest.inputs), *_rows("output", manifest.outputs)]
    parts = [
        f"# {manifest.name}",
        origin,
        "## Tensors",
        markdown_table(("", "name", "type", "shape"), tensors),
        "## How it was made",
        "\n".join(f"* {choice}" for choice in choices),
        *more,
    ]
    (folder / CARD).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def markdown_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


def _rows(side: str, specs: Sequence[TensorSpec]) -> list[tuple[str, ...]]:
    return [(side, spec.name, str(spec.dtype), " by ".join(map(str, spec.shape)) or "one") for spec in specs]
