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
    ("GET", "/v2/models/{}/versions/1/ready"),
    ("GET", "/v2/models/{}/versions/1/config"),
    ("GET", "/v2/models/{}/versions/1/stats"),
    ("POST", "/v2/models/{}/generate"),
    ("POST", "/v2/models/{}/generate_stream"),
    ("POST", "/v2/models/{}/versions/1/generate"),
    ("POST", "/v2/models/{}/versions/1/generate_stream"),
    ("GET", "/v1/models/{}"),
    ("POST", "/v1/models/{}/call"),
    ("GET", "/v1/models/{}/queue"),
    ("POST", "/v1/models/{}/recordings?seconds=0.01"),
    ("GET", "/v2/models/{}/trace/setting"),
    ("POST", "/v2/models/{}/trace/setting"),
    ("POST", "/v2/repository/models/{}/load"),
    ("POST", "/v2/repository/models/{}/unload"),
]
DOCUMENTS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/completions": {"prompt": "x"},
    "/v1/embeddings": {"input": "x"},
}


def same(hidden, unknown):
    assert hidden.status_code == 404
    assert hidden.text.replace("pair", "none") == unknown.text
    assert (hidden.status_code, hidden.headers.items()) == (unknown.status_code, unknown.headers.items())


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_hidden_is_unknown(shared, method, path):
    host, client = shared
    same(*(client.request(method, path.format(name), headers=as_("narrow")) for name in ("pair", "none")))
    assert host.lifecycle.calls == []


@pytest.mark.parametrize("path", DOCUMENTS)
def test_hidden_is_unknown_where_the_body_names_it(shared, path):
    _, client = shared
    bodies = [DOCUMENTS[path] | {"model": name} for name in ("pair", "none")]
    same(*(client.post(path, json=body, headers=as_("narrow")) for body in bodies))


def test_no_route_is_left_out(shared):
    paths = shared[1].get("/openapi.json").json()["paths"]
    methods = ("get", "head", "post", "put", "delete")
    documented = {(m.upper(), path) for path, acts in paths.items() if "{model}" in path for m in methods if m in acts}
    templates = [(m, path.partition("?")[0].replace("{}", "{model}")) for m, path in PATHS]
    named = {(m, path.replace("/versions/1", "/versions/{version}")) for m, path in templates}
    assert documented == named


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
