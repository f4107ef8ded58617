"""What changes in a plugin's folder while its author works on it."""

import time
from collections.abc import Iterator
from pathlib import Path

from sandseal_sdk.build import FOLDER

_INTERVAL_S = 0.3


def changes(folder: Path, interval_s: float = _INTERVAL_S) -> Iterator[None]:
    """Yield at once, and then whenever a file of the folder came, went or was written; never ends.

    A folder of sources is small, so looking at all of it a few times a second costs next to nothing, and works on
    every file system.

    Args:
        folder: a plugin's; what builds write into it does not count, nor hidden files.
        interval_s: seconds between two looks.
    """
    seen: object = None
    while True:
        now = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if _counts(path.relative_to(folder), path)}
        if now != seen:
            seen = now
            yield
        time.sleep(interval_s)


def _counts(path: Path, full: Path) -> bool:
    return not (path.parts[0] == FOLDER or any(part.startswith((".", "__")) for part in path.parts)) and full.is_file()
