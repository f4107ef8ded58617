"""Clients that people have, against a real host."""

import asyncio
import gzip
import json
import re
import urllib.request

import numpy as np
import pytest
import tritonclient.http as triton

from sandseal_sdk import AsyncClient
from sandseal_sdk.errors import DeadlinePassed, HostRefused, NotAllowed, NotFound, RequestRefused
from support.hosts import RunningHost
from support.onnx_models import mlp

pytestmark = pytest.mark.slow

ROWS = np.random.default_rng(0).standard_normal((3, 128)).astype(np.float32)


@pytest.fixture
def expected(host: RunningHost):
    with host.client() as client:
        return client.infer("acme.mlp", {"x": ROWS})["y"]


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_tritonclient_infers(host: RunningHost, expected, binary: bool, compression: str | None) -> None:
    client = triton.InferenceServerClient(f"127.0.0.1:{host.port}")
    headers = {"Authorization": f"Bearer {host.token}"}
    tensor = triton.InferInput("x", [3, 128], "FP32")
    tensor.set_data_from_numpy(ROWS, binary_data=binary)
    wanted = triton.InferRequestedOutput("y", binary_data=binary)
    answer = client.infer(
        "acme.mlp",
        [tensor],
        outputs=[wanted],
        headers=headers,
        request_id="seven",
        request_compression_algorithm=compression,
    )
    np.testing.assert_allclose(answer.as_numpy("y"), expected, rtol=1e-6)
    assert answer.get_response()["id"] == "seven"
    client.close()


def test_tritonclient_sees_health_metadata_and_repository(host: RunningHost) -> None:
    client = triton.InferenceServerClient(f"127.0.0.1:{host.port}")
    headers = {"Authorization": f"Bearer {host.token}"}
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("acme.mlp", headers=headers)
    metadata = client.get_model_metadata("acme.mlp", headers=headers)
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 128]}]
    assert "binary_tensor_data" in client.get_server_metadata(headers=headers)["extensions"]
    (entry,) = client.get_model_repository_index(headers=headers)
    assert (entry["name"], entry["version"], entry["state"]) == ("acme.mlp", "1", "READY")
    client.unload_model("acme.mlp", headers=headers)
    assert not client.is_model_ready("acme.mlp", headers=headers)
    client.load_model("acme.mlp", headers=headers)
    assert client.is_model_ready("acme.mlp", headers=headers)
    client.close()


def test_plain_http_without_content_type_infers(host: RunningHost, expected) -> None:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 128], "data": ROWS.tolist()}]}
    request = urllib.request.Request(
        f"{host.url}/v2/models/acme.mlp/infer",
        gzip.compress(json.dumps(body).encode()),
        {"Authorization": f"Bearer {host.token}", "Content-Encoding": "gzip"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        document = json.load(answer)
        assert "run;dur=" in answer.headers["Server-Timing"]
        assert len(answer.headers["Sandseal-Bundle"]) == 64
    (output,) = document["outputs"]
    np.testing.assert_allclose(np.reshape(output["data"], output["shape"]), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"x": np.zeros((1, 127), np.float32)}, "request_invalid"),
        ({"x": np.zeros((1, 128), np.float64)}, "request_invalid"),
        ({"z": np.zeros((1, 128), np.float32)}, "request_invalid"),
        ({"x": np.zeros((33, 128), np.float32)}, "request_invalid"),
    ],
    ids=["shape", "dtype", "name", "too many rows"],
)
def test_wrong_requests_are_told_what_is_wrong(host: RunningHost, inputs, code: str) -> None:
    with host.client() as client, pytest.raises(HostRefused) as refusal:
        client.infer("acme.mlp", inputs)
    assert (refusal.value.status, refusal.value.code) == (400, code)
    assert refusal.value.hint


def test_unknown_model_and_missing_token(host: RunningHost) -> None:
    with host.client() as client, pytest.raises(HostRefused) as refusal:
        client.infer("acme.nothing", {"x": ROWS})
    assert refusal.value.status == 404
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{host.url}/v2/models/acme.mlp", timeout=60)


def test_tritonclient_over_grpc(publisher, start) -> None:
    grpc = pytest.importorskip("tritonclient.grpc")
    with start(SANDSEAL_GRPC_PORT="0") as host:
        with host.client() as client:
            client.push(publisher.seal(mlp()))
            expected = client.infer("acme.mlp", {"x": ROWS})["y"]
        port = re.search(r"gRPC on port (\d+)", host.log.read_text())[1]
        headers = {"authorization": f"Bearer {host.token}"}
        tensor = grpc.InferInput("x", [3, 128], "FP32")
        tensor.set_data_from_numpy(ROWS)
        with grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
            answers = [client.infer("acme.mlp", [tensor], headers=headers).as_numpy("y") for _ in range(50)]
            assert client.is_server_ready()
            host.process.terminate()
            assert host.process.wait(120) == 0
    for answer in answers:
        np.testing.assert_allclose(answer, expected, rtol=1e-6)


def test_our_own_client_on_an_event_loop(host: RunningHost, expected) -> None:
    async def ask() -> None:
        async with AsyncClient(host.url, host.token, connections=8) as client:
            assert await client.ready()
            assert [entry["name"] for entry in await client.models()] == ["acme.mlp"]
            assert (await client.model("acme.mlp"))["inputs"][0]["datatype"] == "FP32"
            rows = [client.infer("acme.mlp", {"x": ROWS[at % 3 : at % 3 + 1]}) for at in range(40)]
            for at, answer in enumerate(await asyncio.gather(*rows)):
                np.testing.assert_allclose(answer["y"], expected[at % 3 : at % 3 + 1], rtol=1e-5)
            with pytest.raises(NotFound) as unknown:
                await client.infer("acme.none", {"x": ROWS})
            assert unknown.value.code == "model_unknown"
            with pytest.raises(RequestRefused):
                await client.infer("acme.mlp", {"x": ROWS[:, :5]})
        async with AsyncClient(host.url) as stranger:
            with pytest.raises(NotAllowed):
                await stranger.infer("acme.mlp", {"x": ROWS})

    asyncio.run(ask())


def test_the_host_is_told_how_long_our_client_waits(host: RunningHost) -> None:
    with host.client() as client, pytest.raises(HostRefused) as refusal:
        client.infer("acme.mlp", {"x": ROWS}, parameters={"timeout": 1})
    assert isinstance(refusal.value, DeadlinePassed) or refusal.value.code == "deadline_impossible"
    assert refusal.value.request_id
