"""Brings wuffs.c: the decoders of Google's Wuffs library (Apache-2.0 or MIT), out of the sources of a PyPI package.

python fetch.py
"""

import shutil
from pathlib import Path

from sandseal_sdk.packages import unpack_package

PACKAGE = "pywuffs==2.0.1"
SHA256 = "5a9fd8a5026badf9e133940cee87ad58bd5cb4cd5264b9c46b607cb34e2bb9ab"
SOURCE = "libs/wuffs/release/c/wuffs-unsupported-snapshot.c"
HERE = Path(__file__).parent


def fetch() -> None:
    """Write wuffs.c, unless it is there."""
    if not (HERE / "wuffs.c").exists():
        shutil.copyfile(unpack_package(PACKAGE, HERE / "build" / "packages", SHA256) / SOURCE, HERE / "wuffs.c")


if __name__ == "__main__":
    fetch()
