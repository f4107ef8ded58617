"""Writes assets/characters.txt from a PP-OCR model: one line for each class but the blank, in the model's order.

python characters.py MODEL.ONNX     whose metadata holds the characters, as those of the package `rapidocr` do
"""

import sys
from pathlib import Path

import onnx

ASSET = Path(__file__).parent / "assets" / "characters.txt"


def write_characters(model: Path, asset: Path = ASSET) -> Path:
    """Write the asset; the space, which the model has last, is not among its metadata."""
    metadata = {entry.key: entry.value for entry in onnx.load(model).metadata_props}
    asset.parent.mkdir(exist_ok=True)
    asset.write_text("\n".join([*metadata["character"].splitlines(), " "]), encoding="utf-8", newline="\n")
    return asset


if __name__ == "__main__":
    write_characters(Path(sys.argv[1]))
