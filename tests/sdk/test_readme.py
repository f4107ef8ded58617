"""sdk/README.md, typed as a newcomer would type it: from nothing to a signed plugin that runs, and its CI recipe."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandseal_signing.keys import PrivateKey
from support.hosts import running_host
from support.onnx_models import identity

README = (Path(__file__).parents[2] / "sdk" / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^    ((?:sandseal|curl) (?:.*\\\n)*.*?)(?: +#.*)?$", re.MULTILINE)

pytestmark = pytest.mark.slow


def section(number: int) -> str:
    return README.partition(f"\n## {number}. ")[2].partition("\n## ")[0]


@pytest.fixture
def shell(tmp_path):
    """Runs a line of bash in an empty folder that holds a model; `sandseal` is this environment's."""
    (tmp_path / "model.onnx").write_bytes(identity().data)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}
    environment |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    def shell(line: str, **variables: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    return shell


def test_from_nothing_to_a_plugin_that_runs(shell, tmp_path):
    for line in COMMAND.findall(section(1) + section(4)):
        shell(line)
    lines = COMMAND.findall(section(5))
    serve = next(line for line in lines if line.startswith("sandseal serve"))
    before, after = lines[: lines.index(serve)], lines[lines.index(serve) + 1 :]
    for line in before:
        shell(line)
    with running_host(tmp_path / "model" / "trust.toml", tmp_path / "data") as host:
        said = [shell(line.replace("http://127.0.0.1:8000", host.url)) for line in after]
    (output,) = json.loads(said[-1])["outputs"]
    assert output["data"] == pytest.approx([-1.2247449, 0, 1.2247449])


def test_the_recipes_for_ci_sign_without_a_key_on_disk(shell, tmp_path):
    key, second = PrivateKey.generate(), tmp_path / "second"
    shell("sandseal new centre --lang c && sandseal init model.onnx --pre centre && rm model/publisher.key")
    runs = re.findall(r"^      - run: (.*)$", section(7), re.MULTILINE)
    script = re.findall(r"^    - (.*)$", section(7), re.MULTILINE)
    assert [line for line in runs if "sign" not in line] == [line for line in script if "sign" not in line]
    for line in runs[1:-1]:  # without the installation, and without a host to push to
        shell(line, SANDSEAL_KEY=key.pem().decode())
    shell(f"sandseal keygen {second}")
    for line in COMMAND.findall(section(7))[1:-1]:
        shell(line)
    assert (tmp_path / "second.sig").is_file()
