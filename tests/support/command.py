"""The `sandseal` command, typed in a folder that is its user's home."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SANDSEAL = [sys.executable, "-m", "sandseal_sdk"]


def sandseal(home: Path, *arguments: object, ok: bool = True) -> str:
    """Run a command there; its standard output, or its standard error when it must fail."""
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "COLUMNS": "200"}
    command = [*SANDSEAL, *map(str, arguments)]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode == 0) is ok, done.stderr
    return done.stdout if ok else done.stderr


@contextmanager
def started(home: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A command that goes on until the block ends; it must then leave with status 0."""
    with (home / "log").open("w") as log:
        process = subprocess.Popen([*SANDSEAL, *arguments], cwd=home, stdout=subprocess.PIPE, stderr=log, text=True)
        with process:
            try:
                yield process
            finally:
                process.terminate()
            assert process.wait(120) == 0, (home / "log").read_text()
