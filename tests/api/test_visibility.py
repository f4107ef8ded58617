"""A model that a token may not see is one that does not exist, wherever it is asked for."""

import pytest

from api.test_control import SEAL, as_
from api.test_infer import refused

PATHS = [
    ("GET", "/v2/models/{}"),
    ("GET", "/v2/models/{}/versions/1"),
    ("GET", "/v2/models/{}/ready"),
    ("GET", "/v2/models/{}/config"),
    ("GET", "/v2/models/{}/stats"),
    ("POST", "/v2/models/{}/infer"),
    ("POST", "/v2/models/{}/versions/1/infer"),
    ("POST", "/v2/models/{}/generate"),
    ("POST", "/v2/models/{}/generate_stream"),
    ("POST", "/v1/models/{}/call"),
    ("POST", "/v2/repository/models/{}/load"),
    ("POST", "/v2/repository/models/{}/unload"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_hidden_is_unknown(shared, method, path):
    host, client = shared
    hidden, unknown = (client.request(method, path.format(name), headers=as_("narrow")) for name in ("pair", "none"))
    assert hidden.status_code == 404
    assert hidden.text.replace("pair", "none") == unknown.text
    assert (hidden.status_code, hidden.headers.items()) == (unknown.status_code, unknown.headers.items())
    assert host.lifecycle.calls == []


def test_lists_leave_hidden_models_out(shared):
    _, client = shared
    assert client.get("/v2/models", headers=as_("narrow")).json() == {"models": ["mlp"]}
    index = client.post("/v2/repository/index", headers=as_("narrow")).json()
    assert {line["name"] for line in index} == {"mlp"}


def test_statistics_leave_hidden_models_out(shared):
    _, client = shared
    answer = client.get("/v2/models/stats", headers=as_("narrow"))
    if answer.status_code == 200:
        assert {entry["name"] for entry in answer.json()["model_stats"]} <= {"mlp"}


def test_bundles(client):
    bundle = client.post("/v1/bundles", content=SEAL).json()["id"]
    for wanted in (bundle, "0" * 64):
        for answer in (
            client.get(f"/v1/bundles/{wanted}", headers=as_("narrow")),
            client.delete(f"/v1/bundles/{wanted}", headers=as_("narrow")),
            client.post("/v1/trust/explain", json={"bundle": wanted}, headers=as_("narrow")),
        ):
            told = refused(answer, 404, code="bundle_unknown")
            assert told["error"] == f"there is no bundle {wanted!r}"
    answer = client.post("/v1/trust/explain", json={"name": "pair", "key": "k"}, headers=as_("narrow"))
    refused(answer, 404, code="model_unknown")
