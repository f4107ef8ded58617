"""`make chat` on the real model, without a terminal."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.language_models import smollm2

SCRIPT = Path(__file__).resolve().parents[2] / "sdk" / "examples" / "chat.py"


@pytest.mark.slow
def test_it_answers_and_the_urgent_do_not_wait() -> None:
    smollm2()  # skips where pip cannot get it
    ran = subprocess.run(
        [sys.executable, str(SCRIPT)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "The capital of France is Paris." in ran.stdout
    rows = re.findall(r"(\w+) .*? ([\d.]+) s\W*$", ran.stdout, re.MULTILINE)
    last = {name: float(seconds) for name, seconds in rows}
    assert last["realtime"] < last["standard"] < last["batch"]
