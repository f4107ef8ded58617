"""Load generators that people have, against a real host.

`SANDSEAL_CLIENTS=all` also runs NVIDIA's aiperf, whose packages take more than a gigabyte.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bundles import trust_text
from support.generation import generating_seal
from support.hosts import RunningHost, running_host
from support.keys import ed25519_key
from support.tokenizer_files import byte_level
from support.venv import NotInstallable, make_venv

pytestmark = pytest.mark.slow

NAME = "acme.tiny-talk"
INFER = {
    "payload_template": '{"inputs":[{"name":"text_input","shape":[1],"datatype":"BYTES","data":[{{ text|tojson }}]}],'
    '"parameters":{"max_tokens":4}}',
    "response_field": "outputs[0].data[0]",
}
WAYS = {
    "chat": ["--streaming", "--extra-inputs", "ignore_eos:true"],
    "completions": [],
    "template": ["--custom-endpoint", f"/v2/models/{NAME}/infer", "--extra-inputs", json.dumps(INFER)],
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    folder = tmp_path_factory.mktemp("load")
    trust, seal = folder / "trust.toml", folder / "tiny.seal"
    trust.write_text(trust_text({"alice": ed25519_key("alice")}, {"domains": ["", "com.microsoft"]}))
    seal.write_bytes(generating_seal([ed25519_key("alice")], NAME))
    with running_host(trust, folder / "data") as host, host.client() as client:
        client.push(seal)
        yield host


@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk")
def test_wrk(host, tmp_path):
    script = tmp_path / "post.lua"
    script.write_text(
        'wrk.method = "POST"\n'
        'wrk.body = \'{"text_input": "a", "parameters": {"max_tokens": 1}}\'\n'
        f'wrk.headers["Authorization"] = "Bearer {host.token}"\n'
    )
    command = ["wrk", "-t1", "-c4", "-d2s", "--timeout", "30s", "-s", script, f"{host.url}/v2/models/{NAME}/generate"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"(\d+) requests in", said)
    assert found is not None
    assert int(found[1]) > 0, said
    assert "Non-2xx" not in said, said
    assert "Socket errors" not in said, said


@pytest.fixture(scope="module")
def aiperf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return make_venv(tmp_path_factory.mktemp("aiperf") / "venv", "aiperf==0.13.0").with_name("aiperf")
    except NotInstallable as error:
        pytest.skip(f"cannot be had here: {error}")


@pytest.mark.skipif(os.environ.get("SANDSEAL_CLIENTS") != "all", reason="1.2 GB of packages: SANDSEAL_CLIENTS=all")
@pytest.mark.parametrize("endpoint", WAYS)
def test_aiperf(host, aiperf, tmp_path, endpoint):
    """Offline: with a tokenizer from a folder, since its built-in one is fetched when it is first used."""
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_bytes(byte_level())
    (tokenizer / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    command = [aiperf, "profile", "-m", NAME, "--url", host.url, "--api-key", host.token, "--tokenizer", tokenizer]
    command += ["--request-count", "8", "--concurrency", "2", "--isl", "4", "--osl", "4", "--ui", "simple"]
    command += ["--artifact-dir", tmp_path / "found", "--endpoint-type", endpoint, *WAYS[endpoint]]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    found = json.loads((tmp_path / "found" / "profile_export_aiperf.json").read_text())
    assert found["request_count"]["avg"] == 8
    assert found["error_summary"] == []
