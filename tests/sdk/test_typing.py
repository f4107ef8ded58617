"""What an author's own tests import is typed, as a strict checker sees it from outside."""

import subprocess
import sys

import pytest

from sandseal_sdk import harness

TYPED = """
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sandseal_host.errors import InputRefused, PluginTrapped
from sandseal_sdk import harness


def fuel(folder: Path, sandseal_plugin: Callable[[Path | str], harness.LoadedPlugin]) -> int:
    with harness.load_plugin(folder, print) as plugin:
        result = plugin.call({"x": np.zeros(3)}, {"top_k": 3})
    report = harness.test_plugin(folder, update=False)
    names: list[str] = [case.name for case in report.cases if not case.passed]
    try:
        sandseal_plugin(folder).call({"x": names})
    except (InputRefused, PluginTrapped) as error:
        print(error.code, error.message, error.hint)
    return result.fuel + plugin.spec.limits.memory_mib
"""


@pytest.mark.slow
def test_the_harness_is_typed(tmp_path):
    (tmp_path / "theirs.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", "theirs.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "theirs.py").write_text(TYPED.replace("-> int", "-> str"))
    assert "Incompatible return value" in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout


def test_results_cannot_be_changed():
    result = harness.CaseResult("one", True, 0.1, 10, 65536, "")
    with pytest.raises(AttributeError):
        result.passed = False
