"""Clients that bring requirements of their own, each from a virtual environment of its own, against a real host.

`SANDSEAL_CLIENTS=all` also runs those whose packages take half a gigabyte.
"""

import http.client
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sandseal_signing.tensor import DataType
from support.hosts import RunningHost, running_host
from support.onnx_models import identity, looping, mlp
from support.venv import NotInstallable, make_venv

pytestmark = pytest.mark.slow

ROW = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 128], "data": [0.5] * 128}]}
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
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return list(json.loads(ran.stdout.splitlines()[-1]))


def test_tritonclient(both, tmp_path):
    host, port = both
    packages = ("tritonclient[grpc,http]==2.73.0", "ml_dtypes==0.5.4")
    worked = run(tmp_path, "triton_clients.py", packages, str(host.port), str(port), host.token)
    assert {"http timeout", "http aio cancelled", "grpc timeout", "grpc cancelled", "grpc settings"} <= {*worked}
    assert "grpc aio stream acme.mlp" in worked
    ways = ("http binary gzip", "http aio", "grpc gzip", "grpc aio")
    assert {f"{way} {model}" for way in ways for model in MODELS if model != "acme.loop"} <= {*worked}


@pytest.mark.skipif(os.environ.get("SANDSEAL_CLIENTS") != "all", reason="500 MB of packages: SANDSEAL_CLIENTS=all")
def test_kserve(both, tmp_path):
    host, port = both
    worked = run(tmp_path, "kserve_clients.py", ("kserve==0.21.0",), host.url, str(port), host.token)
    assert worked == ["rest binary", "rest json", "grpc raw", "grpc typed"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(
    "flags",
    [
        ("--compressed",),
        ("--compressed", "-H", "Accept-Encoding: gzip"),
        ("-H", "Expect: 100-continue"),
        ("-H", "Transfer-Encoding: chunked"),
        ("-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"),
        ("-H", "Content-Type:", "-H", "User-Agent:", "-H", "Accept:"),
        ("--http1.0",),
        ("--http1.0", "-H", "Connection: keep-alive"),
        ("--http2",),
        ("-X", "POST", "--max-time", "30", "--retry", "2", "--location", "--http1.1", "--tcp-nodelay"),
    ],
    ids=" ".join,
)
def test_curl(both, tmp_path, flags):
    host, _ = both
    (tmp_path / "body.json").write_text(json.dumps(ROW))
    command = ["curl", "--silent", "--fail-with-body", "-H", f"Authorization: Bearer {host.token}", *flags]
    command += ["--data-binary", f"@{tmp_path / 'body.json'}"]
    urls = [f"{host.url}/v2/models/{name}/infer" for name in ("acme.mlp", "acme.mlp", "none")]
    answer = subprocess.run([*command, *urls[:2]], check=True, capture_output=True, timeout=60).stdout
    first, second = (json.loads(line) for line in answer.decode().replace("}{", "}\n{").splitlines())
    assert first["outputs"][0]["shape"] == [1, 10]
    assert first == second
    refused = subprocess.run([*command, urls[2]], check=False, capture_output=True, timeout=60)
    assert refused.returncode == 22
    assert json.loads(refused.stdout)["code"] == "model_unknown"


def test_the_longest_patience_and_the_last_level(both):
    host, _ = both
    with host.client() as client:
        most = {"timeout": 2**64 - 1, "priority": 2**64 - 1}
        assert client.infer("acme.mlp", {"x": np.ones((1, 128), np.float32)}, parameters=most)["y"].shape == (1, 10)


def test_who_pauses_finds_the_connection_open(both):
    """As proxies and load generators need it, which keep theirs for some ten seconds at least."""
    host, _ = both
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=30)
    connection.connect()
    own = connection.sock
    for pause_s in (0, 6):
        time.sleep(pause_s)
        connection.request(
            "POST", "/v2/models/acme.mlp/infer", json.dumps(ROW), {"Authorization": f"Bearer {host.token}"}
        )
        assert connection.getresponse().read()
        assert connection.sock is own
    connection.close()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_fetch(both):
    host, _ = both
    command = ["node", SCRIPTS / "fetch_client.mjs", host.url, host.token]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout) == ["infer", "binary", "many at once", "refused", "streamed"]


def _grpc_port(host: RunningHost) -> int:
    found = re.search(r"gRPC on port (\d+)", host.log.read_text())
    assert found is not None
    return int(found[1])
