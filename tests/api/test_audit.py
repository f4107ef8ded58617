"""Who did what to the host: one line each, whether it was let or not, and never a secret."""

import logging

import pytest

from api.conftest import standard_host
from api.test_control import SEAL, as_
from api.web import Web


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "sandseal.audit")

    def told() -> list[tuple[str, str | None, str | None]]:
        facts = [vars(record) for record in caplog.records if record.name == "sandseal.audit"]
        assert all(fact["address"] == "127.0.0.1" for fact in facts)
        return [(fact["message"], fact.get("token"), fact.get("outcome")) for fact in facts]

    return told


@pytest.fixture
def client():
    with Web(standard_host().app, "root") as client:
        yield client


def test_acts(client, lines):
    client.post("/v1/bundles", content=SEAL)
    client.post("/v2/repository/models/mlp/unload")
    client.post("/v1/tokens", json={"name": "new", "scopes": ["infer"]})
    client.delete("/v1/tokens/nobody%0Aelse")
    assert lines() == [
        ("POST /v1/bundles", "root", "201"),
        ("POST /v2/repository/models/mlp/unload", "root", "200"),
        ("POST /v1/tokens", "root", "201"),
        ("DELETE /v1/tokens/nobody%0Aelse", "root", "404"),
    ]


def test_what_became_of_a_bundle(client, caplog):
    caplog.set_level(logging.INFO, "sandseal.audit")
    entry = client.post("/v1/bundles", content=SEAL).json()
    client.delete(f"/v1/bundles/{'0' * 64}")
    accepted, unknown = [vars(record) for record in caplog.records if record.name == "sandseal.audit"]
    facts = ("model", "version", "bundle", "verdict")
    assert [accepted[fact] for fact in facts] == [entry[name] for name in ("name", "version", "id", "state")]
    assert unknown["verdict"] == "bundle_unknown"


def test_what_was_refused(client, lines, caplog):
    client.post("/v2/repository/models/mlp/load", headers=as_("caller"))
    client.post("/v1/tokens", content=b"{", headers=as_("root"))
    client.delete("/v1/tokens/root", headers=as_("guessed-secret"))
    assert lines() == [
        ("POST /v2/repository/models/mlp/load", "caller", "403"),
        ("POST /v1/tokens", "root", "400"),
        ("a wrong token", None, None),
        ("DELETE /v1/tokens/root", None, "401"),
    ]
    assert "guessed-secret" not in caplog.text


def test_questions_are_no_acts(client, lines):
    for path in ("/v1/bundles", "/v1/tokens", "/metrics", "/v2/models"):
        client.get(path)
    client.post("/v2/repository/index")
    client.post("/v1/trust/explain", json={"name": "x", "key": "y"})
    assert lines() == []
