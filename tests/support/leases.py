"""Whether read leases are granted where tests put their files, and the signal that they need."""

import fcntl
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _granted() -> bool:
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    with tempfile.NamedTemporaryFile() as file, Path(file.name).open("rb") as read:
        file.close()
        try:
            fcntl.fcntl(read, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            return False
    return True


needs_leases = pytest.mark.skipif(not _granted(), reason="this file system grants no read leases")


@contextmanager
def listening() -> Iterator[list[int]]:
    """Handles SIGIO; gives the list of those that came."""
    came: list[int] = []
    before = signal.signal(signal.SIGIO, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGIO, before)
