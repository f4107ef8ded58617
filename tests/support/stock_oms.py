"""The stock model-signing tool in a virtual environment of its own, made once per test run or bench."""

import subprocess
import sys
from pathlib import Path

PACKAGES = ("model-signing==1.1.1", "pyOpenSSL")  # 1.1.1 imports pyOpenSSL and does not ask for it


class NotInstallable(Exception):
    """The packages cannot be had here; the text says why."""


class StockTool:
    """`model_signing` as its users have it.

    Args:
        folder: where the virtual environment goes.

    Raises:
        NotInstallable: no network, or no such packages.
    """

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, timeout=120)
            pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
            subprocess.run(pip, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or b""
            raise NotInstallable(f"{' '.join(PACKAGES)}: {error} {said.decode(errors='replace')[-300:]}") from error

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command of the tool."""
        command = [str(self.python), "-m", "model_signing", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
