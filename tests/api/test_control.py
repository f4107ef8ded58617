"""The control plane: repository, bundles, tokens, metrics, the OpenAPI document."""

import json
import re

import pytest
from structlog.testing import capture_logs

from api.test_infer import ask, refused, tensor
from sandseal_host.api.grant import Grant
from sandseal_host.api.openapi import DATA_PLANE
from sandseal_host.api.routes import match_route
from sandseal_host.errors import ModelUnknown, VersionStale
from sandseal_host.registry.tokens import Scope
from sandseal_signing.errors import PolicyRefused

SEAL = b"SEAL:acme.tiny:" + bytes(100_000) + b":END"


def as_(token):
    return {"Authorization": f"Bearer {token}"}


class TestRepository:
    def test_index_needs_no_body_and_no_content_type(self, client, host):
        host.models.get("mlp").state = "draining"
        host.models.get("half").state, host.models.get("text").state = "loading", "failed"
        host.models.models[9].reason = "no room"
        answer = client.post("/v2/repository/index")
        assert answer.status_code == 200
        lines = {(line["name"], line["version"]): line for line in answer.json()}
        assert lines["identity", "1"] == {"name": "identity", "version": "1", "state": "READY"}
        assert lines["versions", "3"]["state"] == "READY"
        assert lines["mlp", "1"]["state"] == "UNLOADING"
        assert lines["half", "1"] == {"name": "half", "version": "1", "state": "LOADING", "reason": "loading"}
        assert lines["text", "1"]["reason"] == "no room"

    def test_index_of_what_is_ready(self, client, host):
        host.models.get("mlp").state = "loading"
        names = [line["name"] for line in client.post("/v2/repository/index", json={"ready": True}).json()]
        assert "mlp" not in names
        assert "identity" in names
        refused(client.post("/v2/repository/index", content=b"{"), 400, "not JSON")

    def test_list(self, client):
        assert "mlp" in client.get("/v2/models").json()["models"]
        assert client.get("/v2/models", headers=as_("narrow")).json() == {"models": ["mlp"]}

    def test_load_and_unload(self, client, host):
        assert client.post("/v2/repository/models/mlp/load").status_code == 200
        body = {"parameters": {"version": "3", "wait": False}}
        assert client.post("/v2/repository/models/mlp/load", json=body).json() == {"name": "mlp"}
        body = {"parameters": {"unload_dependents": False, "version": 1}}
        assert client.post("/v2/repository/models/mlp/unload", json=body).status_code == 200
        assert host.lifecycle.calls == [
            ("load", "mlp", None, True),
            ("load", "mlp", 3, False),
            ("unload", "mlp", 1, True),
        ]

    def test_load_refuses(self, client):
        path = "/v2/repository/models/{}/load"
        refused(client.post(path.format("nope")), 404, code="model_unknown")
        config = {"parameters": {"config": "{}", "file:1/model.onnx": ""}}
        refused(client.post(path.format("mlp"), json=config), 501, "config", code="unsupported")
        for parameters in ({"wait": 1}, {"version": "x"}, {"version": True}, {"version": 1.0}, []):
            if parameters:
                refused(client.post(path.format("mlp"), json={"parameters": parameters}), 400)
        refused(client.post(path.format("mlp"), json={"parameters": [1]}), 400, "must be an object")

    def test_scopes(self, client):
        refused(client.post("/v2/repository/models/mlp/load", headers=as_("caller")), 403, code="not_permitted")
        refused(client.post("/v2/repository/models/identity/load", headers=as_("narrow")), 404, code="model_unknown")
        assert client.post("/v2/repository/models/mlp/load", headers=as_("narrow")).status_code == 200


class TestQueue:
    def test_why_the_last_batches_went(self, client):
        assert client.get("/v1/models/mlp/queue").json() == {
            "model": "mlp",
            "version": 1,
            "max_rows": 8,
            "max_delay_us": 500,
            "instances": 2,
            "waiting": {"realtime": 0, "standard": 3},
            "running": 1,
            "batches": [{"reason": "full", "requests": 2, "rows": 8, "waited_ms": 250.0}],
        }

    def test_of_one_version(self, client):
        assert client.get("/v1/models/versions/queue", params={"version": 3}).json()["version"] == 3
        refused(client.get("/v1/models/versions/queue", params={"version": 99}), 404, code="model_unknown")
        refused(client.get("/v1/models/versions/queue", params={"version": 0}), 400, "version")

    def test_scopes(self, client):
        refused(client.get("/v1/models/mlp/queue", headers=as_("caller")), 403, code="not_permitted")
        refused(client.get("/v1/models/identity/queue", headers=as_("narrow")), 404, code="model_unknown")
        for token in ("narrow", "auditor"):
            assert client.get("/v1/models/mlp/queue", headers=as_(token)).status_code == 200


class TestBundles:
    def push(self, client, body=SEAL, token="root", **headers):
        return client.post("/v1/bundles", content=body, headers={**as_(token), **headers})

    def test_upload(self, client, host):
        answer = self.push(client)
        assert answer.status_code == 201
        document = answer.json()
        assert document["name"] == "acme.tiny"
        assert document["state"] == "ready"
        assert document["signers"] == [{"key": "k", "holder": "root", "fingerprint": "ff"}]
        assert host.bundles.streams == [SEAL]

    def test_upload_in_pieces(self, client, host):
        async def pieces():
            for at in range(0, len(SEAL), 1000):
                yield SEAL[at : at + 1000]

        assert self.push(client, pieces()).status_code == 201
        assert host.bundles.streams == [SEAL]

    def test_list_show_delete(self, client):
        bundle = self.push(client).json()["id"]
        assert [entry["id"] for entry in client.get("/v1/bundles").json()] == [bundle]
        assert client.get(f"/v1/bundles/{bundle}").json()["version"] == 1
        assert client.delete(f"/v1/bundles/{bundle}").status_code == 204
        refused(client.get(f"/v1/bundles/{bundle}"), 404, code="bundle_unknown")
        refused(client.delete(f"/v1/bundles/{bundle}"), 404, code="bundle_unknown")

    def test_refusals_carry_their_reasons(self, client, host):
        host.bundles.refuse = PolicyRefused("no rule covers 'acme.tiny'", reasons=[{"check": "rule", "holds": False}])
        body = refused(self.push(client), 403, "no rule", code="policy_refused")
        assert body["reasons"] == [{"check": "rule", "holds": False}]
        host.bundles.refuse = VersionStale("version 1 is not above 2", newest=2)
        assert refused(self.push(client), 409, code="version_stale")["newest"] == 2

    def test_early_refusal_of_a_long_upload(self, client, host):
        host.bundles.refuse = PolicyRefused("no")

        async def endless():
            for _ in range(10_000):
                yield bytes(100_000)

        refused(self.push(client, endless()), 403, code="policy_refused")

    def test_broken_stream(self, client):
        refused(self.push(client, SEAL[:-1]), 400, code="seal_truncated")

    def test_multipart(self, client):
        answer = client.post("/v1/bundles", files={"file": SEAL})
        assert "--data-binary" in refused(answer, 415, code="media_type_unsupported")["hint"]

    def test_scopes(self, client):
        refused(self.push(client, token="caller"), 403, "publish", code="not_permitted")
        bundle = self.push(client, token="publisher").json()["id"]
        refused(client.get("/v1/bundles", headers=as_("caller")), 403, code="not_permitted")
        refused(client.delete(f"/v1/bundles/{bundle}", headers=as_("publisher")), 403, code="not_permitted")
        assert client.get("/v1/bundles", headers=as_("narrow")).json() == []
        refused(client.get(f"/v1/bundles/{bundle}", headers=as_("narrow")), 404, code="bundle_unknown")
        assert len(client.get("/v1/bundles", headers=as_("auditor")).json()) == 1


class TestTokens:
    def issue(self, client, token="root", **fields):
        return client.post("/v1/tokens", json={"name": "new", "scopes": ["infer"], **fields}, headers=as_(token))

    def test_issue_use_revoke(self, client, host):
        answer = self.issue(client, tenant="acme", models="mlp", expires="2030-01-01T00:00:00Z")
        assert answer.status_code == 201
        assert answer.json()["token"]["scopes"] == ["infer"]
        secret = answer.json()["secret"]
        assert host.tokens.expires.year == 2030
        assert client.get("/v2/models/mlp", headers=as_(secret)).status_code == 200
        refused(client.get("/v2/models/pair", headers=as_(secret)), 404, code="model_unknown")
        assert client.delete(f"/v1/tokens/{answer.json()['token']['id']}").status_code == 204
        refused(client.get("/v2/models/mlp", headers=as_(secret)), 401, code="not_authenticated")
        refused(client.delete("/v1/tokens/new"), 404, code="route_unknown")

    def test_list_shows_no_secret(self, client):
        entries = client.get("/v1/tokens").json()
        limits = {"ceiling", "requests_s", "rows_s"}
        assert {"id", "name", "scopes", "tenant", "models", "created", "expires"} | limits == set(entries[0])

    def test_needs_no_content_type(self, client):
        assert client.post("/v1/tokens", content=b'{"name":"n","scopes":["audit"]}').status_code == 201

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b'{"name":"n"}', b'{"name":"n","scopes":[]}', b'{"name":"n","scopes":["root"]}',
                 b'{"name":"","scopes":["infer"]}', b'{"name":"n","scopes":["infer"],"surplus":1}',
                 b'{"name":"n","scopes":["infer"],"expires":"2030-01-01"}',
                 b'{"name":"n","scopes":["infer"],"ceiling":"urgent"}', b'{"name":"n","scopes":["infer"],"rows_s":0}'],
    )  # fmt: skip
    def test_invalid(self, client, body):
        refused(client.post("/v1/tokens", content=body), 400)

    def test_none_reaches_further_than_its_issuer(self, client):
        refused(self.issue(client, "caller"), 403, code="not_permitted")
        refused(self.issue(client, "narrow", scopes=["publish"], models="m*"), 403, "publish", code="not_permitted")
        refused(self.issue(client, "narrow"), 403, "'m*'", code="not_permitted")
        assert self.issue(client, "narrow", models="m*").status_code == 201
        paced = self.issue(client, scopes=["infer", "operate"], ceiling="standard", requests_s=5).json()["secret"]
        within = {"ceiling": "batch", "requests_s": 5, "rows_s": 1}
        assert self.issue(client, paced, **within).status_code == 201
        for beyond in ({"ceiling": "realtime"}, {"requests_s": 6}, {"requests_s": None}):
            refused(self.issue(client, paced, **within | beyond), 403, code="not_permitted")

    def test_an_operator_of_some_models_manages_the_tokens_of_these(self, client, host):
        host.tokens.grants["peer"] = Grant("peer", frozenset({Scope.INFER}), models="m*")
        shown = {entry["id"] for entry in client.get("/v1/tokens", headers=as_("narrow")).json()}
        assert shown == {"narrow", "peer"}
        refused(client.delete("/v1/tokens/caller", headers=as_("narrow")), 404, code="route_unknown")
        assert client.delete("/v1/tokens/peer", headers=as_("narrow")).status_code == 204


class TestMetrics:
    def test_counts_requests(self, client):
        ask(client, "identity", tensor(data=[0] * 16))
        ask(client, "identity", tensor(data=[0] * 16), parameters={"priority": 1})
        ask(client, "identity", tensor(data=[]))
        answer = client.get("/metrics", headers=as_("auditor"))
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        counted = set(re.findall(r"sandseal_requests_total(\{.*\} \S+)", answer.text))
        assert counted == {
            '{class="standard",code="200",model="identity",version="1"} 1.0',
            '{class="realtime",code="200",model="identity",version="1"} 1.0',
            '{class="standard",code="400",model="identity",version="1"} 1.0',
        }
        assert 'sandseal_request_seconds_count{model="identity",version="1"} 3.0' in answer.text

    def test_scopes(self, client):
        assert client.get("/metrics", headers=as_("narrow")).status_code == 200
        refused(client.get("/metrics", headers=as_("caller")), 403, "audit or operate", code="not_permitted")


class TestOpenApi:
    def test_names_both_planes(self, client):
        document = client.get("/openapi.json").json()
        paths = document["paths"]
        for path in ("/v2/models/{model}/infer", "/v1/models/{model}/call", "/v1/bundles", "/v1/tokens", "/metrics"):
            assert path in paths
        assert not [path for path, operations in paths.items() for o in operations.values() if "422" in o["responses"]]
        assert document["security"] == [{"token": []}]

    def test_every_documented_route_of_the_data_plane_exists(self):
        for path, method, _, _ in DATA_PLANE:
            route = match_route(path.format(model="m", version="1"))
            assert route is not None
            assert route.method == method.upper()


def test_unforeseen_errors_are_logged_and_say_nothing(client, host):
    def broken(*_):
        raise RuntimeError("secret detail")

    host.bundles.entries = broken
    host.models.get("identity").run = broken
    with capture_logs() as logs:
        answers = [client.get("/v1/bundles"), ask(client, "identity", tensor(data=[0] * 16))]
    for answer, line in zip(answers, logs, strict=True):
        body = refused(answer, 500, code="internal")
        assert "secret" not in answer.text
        assert body["incident"] == line["incident"]
        assert str(line["exc_info"]) == "secret detail"


def test_errors_of_the_lifecycle_go_through_the_table(client, host):
    async def load(*_, **__):
        raise ModelUnknown("no bundle")

    host.lifecycle.load = load
    refused(client.post("/v2/repository/models/mlp/load"), 404, code="model_unknown")


def test_the_document_is_whole(client):
    """Every reference leads somewhere, and both planes are in it."""
    text = client.get("/openapi.json").text
    document = json.loads(text)
    for reference in set(re.findall(r'"\$ref":"#/([^"]+)"', text)):
        found = document
        for name in reference.split("/"):
            found = found[name]
    assert "$defs" not in text
    infer = document["paths"]["/v2/models/{model}/infer"]["post"]
    assert infer["requestBody"]["content"].keys() == {"application/json", "application/octet-stream"}
    assert {"/v2/logging", "/v1/bundles", "/problems/{code}", "/v1/chat/completions"} <= document["paths"].keys()


def test_the_methods_of_a_path_are_its_own(client):
    refusal = client.request("PUT", "/v1/bundles/offers")
    assert (refusal.status_code, refusal.headers["allow"]) == (405, "POST")


def test_an_end_is_a_text(client):
    asked = {"name": "n", "scopes": ["infer"]}
    assert client.post("/v1/tokens", json=asked | {"expires": 0}).status_code == 400
    assert client.post("/v1/tokens", json=asked | {"requests_s": 5e-324}).status_code == 400
