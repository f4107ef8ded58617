"""The stock model-signing tool in a virtual environment of its own, made once per test run or bench."""

import subprocess
from pathlib import Path

from support.venv import NotInstallable, make_venv

__all__ = ["NotInstallable", "PACKAGES", "StockTool"]

PACKAGES = ("model-signing==1.1.1", "pyOpenSSL")  # 1.1.1 imports pyOpenSSL and does not ask for it


class StockTool:
    """`model_signing` as its users have it.

    Args:
        folder: where the virtual environment goes.

    Raises:
        NotInstallable: no network, or no such packages.
    """

    def __init__(self, folder: Path) -> None:
        self.python = make_venv(folder, *PACKAGES)

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command of the tool."""
        command = [str(self.python), "-m", "model_signing", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
