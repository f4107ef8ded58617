"""Health and metadata, as probes and clients read them."""

import pytest

from api.test_infer import refused
from sandseal_host.api.ports import HostState
from sandseal_host.errors import CircuitOpen


@pytest.fixture
def host(shared):
    return shared[0]


@pytest.fixture
def client(shared):
    return shared[1]


@pytest.mark.parametrize(
    ("state", "live", "ready"),
    [
        (HostState.READY, 200, 200),
        (HostState.STARTING, 200, 400),
        (HostState.STOPPING, 200, 503),
        (HostState.NO_WORKERS, 200, 503),
    ],
)
def test_health_needs_no_token(client, host, monkeypatch, state, live, ready):
    monkeypatch.setattr(host.lifecycle, "state", state)
    nobody = {"Authorization": ""}
    answers = [client.get(f"/v2/health/{name}", headers=nobody) for name in ("live", "ready")]
    assert [answer.status_code for answer in answers] == [live, ready]
    for answer in answers:
        assert answer.json()["live"] is True
        assert answer.json()["ready"] is (state is HostState.READY)
    assert ("error" in answers[1].json()) is (ready != 200)


def test_server(client):
    document = client.get("/v2").json()
    assert document["name"] == "sandseal"
    assert "binary_tensor_data" in document["extensions"]
    refused(client.get("/v2", headers={"Authorization": ""}), 401, code="not_authenticated")


def test_model_shows_its_public_signature(client, host):
    document = client.get("/v2/models/bytes8").json()
    assert document["name"] == "bytes8"
    assert document["versions"] == ["1"]
    assert document["platform"] == "onnxruntime_onnx"
    assert document["inputs"] == [{"name": "x", "datatype": "UINT8", "shape": [-1, -1]}]
    assert document["outputs"] == [{"name": "y", "datatype": "UINT8", "shape": [-1, -1]}]
    assert document["properties"] == {"bundle": host.models.get("bytes8").bundle_id, "release": "r1"}


def test_versions(client):
    assert client.get("/v2/models/versions").json()["versions"] == ["1", "3"]
    assert client.get("/v2/models/versions/versions/1").json()["versions"] == ["1"]
    refused(client.get("/v2/models/versions/versions/9"), 404, code="model_unknown")
    refused(client.get("/v2/models/nope"), 404, code="model_unknown")


def test_model_ready(client, host, monkeypatch):
    assert client.get("/v2/models/mlp/ready").json() == {"name": "mlp", "ready": True}
    assert client.get("/v2/models/mlp/versions/1/ready").status_code == 200
    refused(client.get("/v2/models/nope/ready"), 404, code="model_unknown")
    monkeypatch.setattr(host.models.get("mlp"), "state", "loading")
    answer = client.get("/v2/models/mlp/ready")
    assert answer.status_code == 400
    assert answer.json()["ready"] is False
    assert "loading" in answer.json()["error"]


def test_a_model_whose_plugin_is_left_alone_is_not_ready(client, host, monkeypatch):
    monkeypatch.setattr(host.models.get("mlp"), "trouble", CircuitOpen("left alone", retry_after=7))
    answer = client.get("/v2/models/mlp/ready")
    assert answer.status_code == 400
    assert answer.json() == {"name": "mlp", "ready": False, "error": "left alone", "code": "circuit_open"}


@pytest.mark.parametrize(
    "path",
    ["/v2/", "/v2/nope", "/v2/models/mlp/", "/v2/models//infer", "/v2/models/mlp/nope", "/v2/models/mlp/infer/",
     "/v2/models/mlp/versions/abc", "/v2/models/mlp/versions/1/", "/v2/models/mlp/versions/1/ready/x", "/v1/bundles/",
     "/v2/models/..%2Fmlp/versions"],
)  # fmt: skip
def test_unknown_paths(client, path):
    refused(client.get(path), 404, code="route_unknown")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v2/health/live", "GET"),
        ("HEAD", "/v2/health/live", "GET"),
        ("POST", "/v2", "GET"),
        ("DELETE", "/v2/models/mlp", "GET"),
        ("GET", "/v2/repository/index", "POST"),
        ("PUT", "/v1/bundles", "GET, POST"),
    ],
)
def test_wrong_methods(client, method, path, allow):
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert allow == answer.headers["allow"]
    assert method == "HEAD" or answer.json()["code"] == "method_not_allowed"


def test_behind_a_prefix(host):
    """uvicorn's root_path puts the prefix in front of the path."""
    import asyncio

    import httpx

    async def get(path):
        transport = httpx.ASGITransport(host.app, root_path="/models-of-acme")
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            return await client.get(path, headers={"Authorization": "Bearer root"})

    assert asyncio.run(get("/models-of-acme/v2/models/mlp")).status_code == 200
    assert asyncio.run(get("/models-of-acme/v2/models")).status_code == 200
