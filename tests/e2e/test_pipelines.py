"""A pipeline of tiny models on a real host: what clients, auditors and operators see, and what it does under load."""

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from e2e.conftest import Publisher
from sandseal_sdk.client import Client
from sandseal_signing.keys import PublicKey
from sandseal_signing.manifest import render_manifest
from sandseal_signing.pack import pack_folder
from sandseal_signing.receipt import verify_receipt
from support.hosts import RunningHost, running_host
from support.living_host import adding
from support.onnx_models import looping
from support.pipelines import ECHO, chain, echo, member

pytestmark = pytest.mark.slow

NAME, ONE, TWO = "acme.chain", "acme.one", "acme.two"
STEPS = chain(member("first", "input.x", ONE), echo("same", "first.y"), member("second", "same.y", TWO))
FOREVER = 2**40  # turns of a loop


def sealed(publisher: Publisher, name: str, pipeline: Mapping[str, Any], version: int = 1) -> Path:
    """A signed pipeline; its plugin is the one that gives what it takes."""
    folder = publisher.folder / f"{name}-{version}"
    (folder / "plugins").mkdir(parents=True)
    if any("plugin" in step for step in pipeline["steps"]):
        (folder / "plugins" / "echo.wasm").write_bytes(ECHO)
    document = {"schema": "sandseal.bundle/1", "name": name, "version": version, "pipeline": pipeline}
    (folder / "bundle.json").write_bytes(render_manifest(document))
    seal = folder.with_suffix(".seal")
    with seal.open("wb") as file:
        pack_folder(folder, file, [publisher.key])
    return seal


def turns() -> dict[str, Any]:
    """A pipeline of one model that runs as long as it is told."""
    kind = {"dtype": "INT64", "shape": ["batch", 1]}
    step = {"name": "spin", "model": "acme.turns", "outputs": [{"name": "turns", **kind}]}
    step["inputs"] = [{"name": "rounds", **kind, "from": "input.rounds"}]
    outputs = [{"name": "turns", **kind, "from": "spin.turns"}]
    return {"inputs": [{"name": "rounds", **kind}], "steps": [step], "outputs": outputs}


@pytest.fixture(scope="module")
def host(lasting: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    data = tmp_path_factory.mktemp("pipelines") / "data"
    with running_host(lasting.trust, data, {"SANDSEAL_GRPC_PORT": "0"}) as running:
        with running.client() as client:
            client.push(sealed(lasting, NAME, STEPS))
            assert NAME in {entry["name"] for entry in client.models()}
            answer = httpx.get(f"{running.url}/v2/models/{NAME}/ready", headers=bearer(running.token))
            assert (answer.status_code, answer.json()["code"]) == (400, "member_unavailable")
            assert "step 'first' needs model 'acme.one': there is no model" in answer.json()["error"]
            for name in (ONE, TWO):
                client.push(lasting.seal(adding(1), name))
            client.push(lasting.seal(looping(), "acme.turns"))
            client.push(sealed(lasting, "acme.spin", turns()))
        yield running


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def ask(host: RunningHost, token: str = "", name: str = NAME, rows: int = 1, **parameters: Any) -> httpx.Response:
    data = [[1.0, 2.0]] * rows
    document = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, 2], "data": data}],
        "parameters": parameters,
    }
    return httpx.post(
        f"{host.url}/v2/models/{name}/infer", json=document, headers=bearer(token or host.token), timeout=60
    )


def answered(answer: httpx.Response) -> list[float]:
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"][0]["data"]


def metrics(host: RunningHost) -> str:
    return httpx.get(f"{host.url}/metrics", headers=bearer(host.token)).text


def metric(host: RunningHost, name: str, **labels: str) -> float:
    for line in metrics(host).splitlines():
        if line.startswith(f"{name}{{") and all(f'{label}="{value}"' in line for label, value in labels.items()):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no metric {name} {labels}")


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 40
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_rows_go_through_all_steps_and_each_is_timed(host: RunningHost) -> None:
    answer = ask(host, rows=100)
    assert answered(answer) == [3.0, 4.0] * 100
    stages = [entry.partition(";")[0] for entry in answer.headers["server-timing"].split(", ")]
    assert stages == ["first.queue", "first.run", "same", "second.queue", "second.run"]
    assert answered(ask(host, rows=0)) == []
    for step, rows in (("first", 100), ("same", 0), ("second", 100)):
        labels = {"model": NAME, "step": step}
        assert metric(host, "sandseal_model_pipeline_step_answered_total", **labels) >= 1
        assert metric(host, "sandseal_model_pipeline_step_seconds_total", **labels) > 0
        assert metric(host, "sandseal_model_pipeline_step_rows_total", **labels) >= rows
    assert metric(host, "sandseal_model_pipeline_step_plugin_circuit_open", model=NAME, step="same") == 0


def test_it_is_described_as_an_ensemble(host: RunningHost) -> None:
    with host.client() as client:
        assert client.model(NAME)["platform"] == "ensemble"
        config = json.loads(client.get(f"/v2/models/{NAME}/config"))
    assert (config["platform"], config["max_batch_size"]) == ("ensemble", 0)
    assert config["input"][0]["dims"] == [-1, 2]
    assert config["ensemble_scheduling"] == {
        "step": [
            {"model_name": ONE, "model_version": -1, "input_map": {"x": "input.x"}, "output_map": {"y": "first.y"}},
            {"model_name": TWO, "model_version": -1, "input_map": {"x": "same.y"}, "output_map": {"y": "second.y"}},
        ]
    }


def test_over_grpc_it_is_a_model_like_any_other(host: RunningHost) -> None:
    grpc = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")
    match = re.search(r"gRPC on port (\d+)", host.log.read_text())
    assert match
    headers = bearer(host.token)
    with grpc.InferenceServerClient(f"127.0.0.1:{match[1]}") as client:
        assert client.is_model_ready(NAME, headers=headers)
        config = client.get_model_config(NAME, headers=headers).config
        assert (config.platform, config.max_batch_size) == ("ensemble", 0)
        tensor = grpc.InferInput("x", [33, 2], "FP32")
        tensor.set_data_from_numpy(np.ones((33, 2), np.float32))
        answer = client.infer(NAME, [tensor], headers=headers, priority=1).as_numpy("y")
    assert np.array_equal(answer, np.full((33, 2), 3, np.float32))


def test_a_receipt_names_the_bundles_that_took_part(host: RunningHost) -> None:
    answer = ask(host, **{"sandseal.receipt": "n1"})
    data = host.log.with_suffix("")
    key = PublicKey.parse((data / "keys" / "receipt.pub").read_text())
    receipt = verify_receipt(answer.headers["sandseal-receipt"].encode(), key)
    with host.client() as client:
        ids = {entry["name"]: entry["id"] for entry in client.bundles()}
    assert receipt.bundle.hex == answer.headers["sandseal-bundle"] == ids[NAME]
    assert {step: digest.hex for step, digest in receipt.members.items()} == {"first": ids[ONE], "second": ids[TWO]}
    assert [*receipt.plugins] == ["same"]


def test_a_token_that_does_not_see_a_model_has_no_pipeline_of_it(host: RunningHost) -> None:
    with host.client() as client:
        narrow = client.issue_token("narrow", ["infer"], models="acme.[co]*")["secret"]
    for answer in (ask(host, narrow), httpx.get(f"{host.url}/v2/models/{NAME}/ready", headers=bearer(narrow))):
        assert answer.json()["code"] == "member_unavailable"
        assert answer.json()["error"] == "step 'second' needs model 'acme.two': there is no model 'acme.two'"


def test_a_deadline_holds_at_every_step(host: RunningHost) -> None:
    body = {"inputs": [{"name": "rounds", "datatype": "INT64", "shape": [1, 1], "data": [FOREVER]}]}
    body["parameters"] = {"timeout": 500_000}
    answer = httpx.post(f"{host.url}/v2/models/acme.spin/infer", json=body, headers=bearer(host.token), timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_expired")
    assert answer.json()["error"].startswith("step 'spin': ")
    assert answer.json()["step"] == "spin"


def test_a_client_that_leaves_ends_every_step(host: RunningHost) -> None:
    body = json.dumps(
        {"inputs": [{"name": "rounds", "datatype": "INT64", "shape": [1, 1], "data": [FOREVER]}]}
    ).encode()
    head = (
        f"POST /v2/models/acme.spin/infer HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {host.token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    before = metric(host, "sandseal_model_lane_terminated", model="acme.turns")
    with socket.create_connection(("127.0.0.1", host.port)) as connection:
        connection.sendall(head.encode() + body)
        wait_until(lambda: metric(host, "sandseal_model_lane_scheduler_running", model="acme.turns") == 1)
        assert metric(host, "sandseal_model_pipeline_running", model="acme.spin") == 1
    wait_until(lambda: metric(host, "sandseal_model_pipeline_running", model="acme.spin") == 0)
    wait_until(lambda: metric(host, "sandseal_model_lane_scheduler_running", model="acme.turns") == 0)
    assert metric(host, "sandseal_model_in_flight", model="acme.turns") == 0
    assert metric(host, "sandseal_model_lane_terminated", model="acme.turns") == before + 1


@contextmanager
def load(host: RunningHost, threads: int = 3) -> Iterator[Counter[Any]]:
    """What comes of asking again and again: values, and codes of refusals."""
    seen: Counter[Any] = Counter()
    over = threading.Event()

    def work() -> None:
        with httpx.Client(base_url=host.url, headers=bearer(host.token), timeout=60) as client:
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [40, 2], "data": [0.0] * 80}]}
            while not over.is_set():
                answer = client.post(f"/v2/models/{NAME}/infer", json=body)
                if answer.status_code == 200:
                    seen[tuple(sorted(set(answer.json()["outputs"][0]["data"])))] += 1
                else:
                    seen[answer.json()["code"], re.sub(r"[0-9a-f]{64}", "ID", answer.json()["error"])] += 1

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield seen
    finally:
        over.set()
        for worker in workers:
            worker.join(60)


def reaches(seen: Counter[Any], key: Any, more: int = 5) -> None:
    before = seen[key]
    wait_until(lambda: seen[key] >= before + more)


def test_models_are_replaced_unloaded_and_revoked_under_load(host: RunningHost, lasting: Publisher) -> None:
    with host.client() as client, load(host) as seen:
        reaches(seen, (2.0,))
        for version in range(2, 6):  # replaced: nothing is refused, and every request has one version's rows
            client.push(lasting.seal(adding(version), TWO, version))
            reaches(seen, (1.0 + version,))
        assert set(seen) <= {(1.0 + version,) for version in range(1, 6)}
        gone = "step 'second' needs model 'acme.two': "
        client.unload(TWO)
        wait_until(lambda: any(kind[0] == "member_unavailable" and kind[1].startswith(gone) for kind in seen))
        client.load(TWO)
        reaches(seen, (6.0,))
        revoke(client, TWO)
        wait_until(lambda: any("is revoked" in str(kind[1:]) for kind in seen))
        client.push(lasting.seal(adding(7), TWO, 7))
        reaches(seen, (8.0,))
    refusals = {kind for kind in seen if isinstance(kind[0], str)}
    assert {code for code, _ in refusals} == {"member_unavailable"}
    assert all(text.startswith(gone) for _, text in refusals)


def revoke(client: Client, name: str) -> None:
    newest = max((e for e in client.bundles() if e["name"] == name), key=lambda entry: entry["version"])
    client.revoke("bundle", newest["id"])
