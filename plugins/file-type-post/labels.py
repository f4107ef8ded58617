"""Writes assets/labels.txt from the configuration files of the PyPI package `magika`.

One line for each of the model's outputs, in the model's order; four fields, separated by tabs: the model's label, the
score from which Magika trusts it, what Magika then answers, and what it answers below that score.

    python labels.py FOLDER_OF_THE_INSTALLED_PACKAGE_magika
"""

import json
import sys
from pathlib import Path

MODEL_CONFIG = "models/standard_v3_3/config.min.json"
CONTENT_TYPES = "config/content_types_kb.min.json"
ASSET = Path(__file__).parent / "assets" / "labels.txt"


def render_labels(model_config: bytes, content_types: bytes) -> str:
    """The text of assets/labels.txt, from the contents of the package's two files."""
    config, kinds = json.loads(model_config), json.loads(content_types)
    lines = []
    for label in config["target_labels_space"]:
        threshold = config["thresholds"].get(label, config["medium_confidence_threshold"])
        sure = config["overwrite_map"].get(label, label)
        unsure = "txt" if kinds[sure]["is_text"] else "unknown"
        lines.append(f"{label}\t{threshold}\t{sure}\t{unsure}\n")
    return "".join(lines)


def write_labels(package: Path, asset: Path = ASSET) -> Path:
    """Write the asset from an installed (or unpacked) package `magika`."""
    asset.parent.mkdir(exist_ok=True)
    text = render_labels((package / MODEL_CONFIG).read_bytes(), (package / CONTENT_TYPES).read_bytes())
    asset.write_text(text, encoding="ascii", newline="\n")
    return asset


if __name__ == "__main__":
    write_labels(Path(sys.argv[1]))
