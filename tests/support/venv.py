"""A virtual environment for a package that this project only compares itself with."""

import subprocess
import sys
from pathlib import Path


class NotInstallable(Exception):
    """The packages cannot be had here; the text says why."""


def make_venv(folder: Path, *packages: str) -> Path:
    """Make a virtual environment with these packages; its Python.

    Args:
        folder: where it goes.

    Raises:
        NotInstallable: no network, or no such packages.
    """
    python = folder / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, timeout=600)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        subprocess.run(pip, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        raise NotInstallable(f"{' '.join(packages)}: {error} {said.decode(errors='replace')[-300:]}") from error
    return python
