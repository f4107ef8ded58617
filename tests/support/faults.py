"""A disk and a wall clock that fail on demand, under a real process: a small library, loaded before all others."""

import mmap
import os
import shutil
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

_SOURCE = Path(__file__).with_name("faults.c")
_STATE = struct.Struct("<iiq")


class Faults:
    """What is wrong below a folder; changes reach the process at once.

    Args:
        folder: whose files a broken disk holds.
        state: a file that tells the process.
    """

    def __init__(self, folder: Path, state: Path) -> None:
        state.write_bytes(bytes(_STATE.size))
        with state.open("r+b") as file:
            self._state = mmap.mmap(file.fileno(), _STATE.size)
        self.environment = {"LD_PRELOAD": str(_library()), "FAULTS": str(state), "FAULTS_FOLDER": str(folder)}

    def set(self, *, full: bool = False, read_only: bool = False, clock_s: int = 0) -> None:
        """Let this be wrong, and nothing else."""
        self._state[:] = _STATE.pack(full, read_only, clock_s)


@cache
def _library() -> Path:
    """The library, compiled once; the test is skipped where that cannot be done."""
    if (
        sys.platform != "linux"
        or not hasattr(os, "confstr")
        or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    ):
        pytest.skip("the library that makes faults needs glibc")
    found = shutil.which("cc")
    compiler = [found] if found else [sys.executable, "-m", "ziglang", "cc"]
    library = Path(mkdtemp(prefix="sandseal-faults-")) / "faults.so"
    command = [*compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no C compiler: {done.stderr[-200:]}")
    return library
