"""Plugins that fail on a real host: refused or left out, left alone for a while; and compiled once."""

import json
import re
import time
from pathlib import Path

import httpx
import pytest

from e2e.conftest import Publisher
from sandbox.guests import ECHO, guest
from sandseal_sdk import publish
from sandseal_signing.manifest import render_manifest
from sandseal_signing.pack import pack_folder
from support.hosts import RunningHost
from support.onnx_models import mlp

pytestmark = pytest.mark.slow

# Gives its input; traps where that begins with a one.
MOODY = guest(
    f"""(if (f32.eq (f32.const 1) (f32.load (i32.load offset=8 (call $in (local.get $call) (i32.const 0)))))
          (then unreachable)) {ECHO}"""
)
GOOD, BAD = [0.0] * 128, [1.0] * 128


def sealed(publisher: Publisher, name: str, on_failure: str) -> Path:
    """A bundle whose pre stage is the moody plugin."""
    onnx = publisher.folder / "mlp.onnx"
    onnx.write_bytes(mlp().data)
    bundle = publish.write_bundle(onnx, publisher.folder / name, name=name)
    (bundle / "plugins").mkdir(exist_ok=True)
    (bundle / "plugins" / "moody.wasm").write_bytes(MOODY)
    manifest = json.loads((bundle / "bundle.json").read_bytes())
    x = manifest["model"]["inputs"]
    manifest["pre"] = {"plugin": "plugins/moody.wasm", "function": "run", "inputs": x, "on_failure": on_failure}
    (bundle / "bundle.json").write_bytes(render_manifest(manifest))
    seal = publisher.folder / f"{name}.seal"
    with seal.open("wb") as file:
        pack_folder(bundle, file, [publisher.key])
    return seal


def ask(host: RunningHost, name: str, row: list[float]) -> httpx.Response:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 128], "data": row}]}
    return httpx.post(f"{host.url}/v2/models/{name}/infer", json=body, headers=authorised(host))


def authorised(host: RunningHost) -> dict[str, str]:
    return {"Authorization": f"Bearer {host.token}"}


def ready(host: RunningHost, name: str) -> httpx.Response:
    return httpx.get(f"{host.url}/v2/models/{name}/ready", headers=authorised(host))


def metric(host: RunningHost, name: str, model: str = "") -> float:
    text = httpx.get(f"{host.url}/metrics", headers=authorised(host)).text
    label = rf'\{{[^}}]*model="{re.escape(model)}"[^}}]*\}}' if model else ""
    return float(re.search(rf"^{name}{label} (\S+)$", text, re.MULTILINE)[1])


def test_a_stage_that_fails_is_refused_or_left_out_and_then_left_alone(start, publisher, tmp_path) -> None:
    with start() as host:
        with host.client() as client:
            client.push(sealed(publisher, "acme.passing", "passthrough"))
            refusing = ["acme.refusing-1"]
            client.push(sealed(publisher, refusing[0], "refuse"))
            assert len(list((tmp_path / "data" / "code").iterdir())) == 1  # both have the same plugin
            for name in ("acme.passing", refusing[0]):
                answer = ask(host, name, GOOD)
                assert (answer.status_code, "sandseal-skipped" in answer.headers) == (200, False)
            for _ in range(6):  # the last one is not tried any more
                answer = ask(host, "acme.passing", BAD)
                assert (answer.status_code, answer.headers["sandseal-skipped"]) == (200, "pre")
            assert ready(host, "acme.passing").status_code == 200
            assert metric(host, "sandseal_model_pre_skipped_total", "acme.passing") == 6
            while not is_left_alone(host, refusing[-1]):
                assert len(refusing) < 9
                refusing.append(f"acme.refusing-{len(refusing) + 1}")
                client.push(sealed(publisher, refusing[-1], "refuse"))
        time.sleep(1.1)
        assert ready(host, refusing[-1]).status_code == 200
        assert ask(host, refusing[-1], GOOD).status_code == 200
        assert metric(host, "sandseal_model_pre_circuit_open", refusing[-1]) == 0
    with start() as host:
        host.wait_ready()
        assert ask(host, refusing[-1], GOOD).status_code == 200
        hits, misses = (metric(host, f"sandseal_code_{what}_total") for what in ("hits", "misses"))
        assert (hits, misses) == (1 + len(refusing), 0)


def is_left_alone(host: RunningHost, name: str) -> bool:
    """See that nothing is tried once it has failed; False where the second of that was over before all was asked."""
    for _ in range(5):
        began = time.monotonic()
        answer = ask(host, name, BAD)
        assert (answer.status_code, answer.json()["code"]) == (500, "plugin_trapped")
    refused, asked = ask(host, name, GOOD), ready(host, name)
    is_open = metric(host, "sandseal_model_pre_circuit_open", name)
    if time.monotonic() - began >= 1.0:
        return False
    assert (refused.status_code, refused.json()["code"]) == (503, "circuit_open")
    assert refused.headers["retry-after"] == "1"
    assert (asked.status_code, asked.json()["code"]) == (400, "circuit_open")
    assert is_open == 1
    return True
