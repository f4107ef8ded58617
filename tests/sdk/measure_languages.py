"""The templates of every language beside each other: size, build time, and one call on a realistic input.

    python tests/sdk/measure_languages.py

Fresh instances, as a host makes them; microseconds at the median, the best of five. Instructions are the same on every
machine.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent))

from sandseal_sdk.build import build_plugin
from sandseal_sdk.errors import ExtraMissing
from sandseal_sdk.plugin.plugin_spec import LANGUAGES
from sandseal_sdk.scaffold import new_plugin
from sandseal_sdk.testing.timing import time_plugin
from support.rust import fetch_debian_rust

INPUTS = {
    "pre": {"values": {"shape": [224 * 224 * 3], "random": 7}},
    "post": {"scores": {"shape": [8, 1000], "random": 7}},
}
ROUNDS = 50


def measure(language: str, stage: str, folder: Path) -> list[str]:
    new_plugin(folder, "mine", language, stage)
    for case in (folder / "cases").iterdir():
        case.unlink()
    (folder / "cases" / "large.json").write_text(json.dumps({"inputs": INPUTS[stage]}))
    built = build_plugin(folder)
    timed = [next(time_plugin(folder, ROUNDS)) for _ in range(5)]
    size, us = built.wasm.stat().st_size, min(times.fresh.median_us for times in timed)
    return [f"{built.seconds:.1f} s", f"{size:,}", f"{timed[0].fuel:,}", f"{us:.0f} us"]


def row(language: str) -> list[str]:
    try:
        with TemporaryDirectory() as folder:
            return [cell for stage in INPUTS for cell in measure(language, stage, Path(folder) / stage)]
    except ExtraMissing as error:
        return [error.message]


if __name__ == "__main__":
    command, _ = fetch_debian_rust()
    if command:
        os.environ.setdefault("RUSTC", str(command))
    columns = [f"{stage} {what}" for stage in INPUTS for what in ("build", "bytes", "instructions", "time")]
    print(f"| language | {' | '.join(columns)} |\n{'|---' * (len(columns) + 1)}|")
    for language in LANGUAGES:
        print(f"| {language} | {' | '.join(row(language))} |", flush=True)
