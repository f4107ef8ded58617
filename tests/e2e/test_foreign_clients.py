"""Clients that bring requirements of their own, each from a virtual environment of its own, against a real host.

`SANDSEAL_CLIENTS=all` also runs those whose packages take half a gigabyte.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandseal_signing.tensor import DataType
from support.hosts import RunningHost, running_host
from support.onnx_models import identity, looping, mlp
from support.venv import NotInstallable, make_venv

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).resolve().parents[1] / "oracles"
MODELS = {
    "acme.mlp": mlp(),
    "acme.text": identity(DataType.BYTES, ("batch", "n")),
    "acme.half": identity(DataType.FP16, ("batch", 4)),
    "acme.brain": identity(DataType.BF16, ("batch", 4)),
    "acme.loop": looping(),
}


@pytest.fixture(scope="module")
def both(lasting, tmp_path_factory) -> Iterator[tuple[RunningHost, int]]:
    """A host, and its gRPC port."""
    with running_host(lasting.trust, tmp_path_factory.mktemp("host") / "data", {"SANDSEAL_GRPC_PORT": "0"}) as host:
        with host.client() as client:
            for name, model in MODELS.items():
                client.push(lasting.seal(model, name))
        yield host, _grpc_port(host)


def run(folder: Path, script: str, packages: tuple[str, ...], *arguments: str) -> list[str]:
    """What the script says that worked."""
    try:
        python = make_venv(folder / "venv", *packages)
    except NotInstallable as error:
        pytest.skip(f"cannot be had here: {error}")
    command = [python, SCRIPTS / script, *arguments]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return list(json.loads(ran.stdout.splitlines()[-1]))


def test_tritonclient(both, tmp_path):
    host, port = both
    packages = ("tritonclient[grpc,http]==2.73.0", "ml_dtypes==0.5.4")
    worked = run(tmp_path, "triton_clients.py", packages, str(host.port), str(port), host.token)
    for what in ("http timeout", "http aio cancelled", "grpc timeout", "grpc cancelled", "grpc aio stream acme.mlp"):
        assert what in worked
    ways = ("http binary gzip", "http aio", "grpc gzip", "grpc aio")
    assert {f"{way} {model}" for way in ways for model in MODELS if model != "acme.loop"} <= {*worked}


@pytest.mark.skipif(os.environ.get("SANDSEAL_CLIENTS") != "all", reason="500 MB of packages: SANDSEAL_CLIENTS=all")
def test_kserve(both, tmp_path):
    host, port = both
    worked = run(tmp_path, "kserve_clients.py", ("kserve==0.21.0",), host.url, str(port), host.token)
    assert worked == ["rest binary", "rest json", "grpc raw", "grpc typed"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(both, tmp_path):
    host, _ = both
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 128], "data": [0.5] * 128}]}
    (tmp_path / "body.json").write_text(json.dumps(body))
    command = ["curl", "--silent", "--fail-with-body", "--compressed", "-H", f"Authorization: Bearer {host.token}"]
    command += ["--data-binary", f"@{tmp_path / 'body.json'}", f"{host.url}/v2/models/acme.mlp/infer"]
    answer = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    assert json.loads(answer)["outputs"][0]["shape"] == [1, 10]
    refused = subprocess.run([*command[:-1], f"{host.url}/v2/models/none/infer"], check=False, capture_output=True)
    assert refused.returncode == 22
    assert json.loads(refused.stdout)["code"] == "model_unknown"


def _grpc_port(host: RunningHost) -> int:
    found = re.search(r"gRPC on port (\d+)", host.log.read_text())
    assert found is not None
    return int(found[1])
