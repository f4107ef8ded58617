"""The control plane's trust: who may look, who may revoke, and what they must send."""

import pytest

from api.test_control import SEAL, as_
from api.test_infer import refused

DIGEST = "a" * 64


def test_the_policy_is_for_those_who_operate_or_audit(client):
    assert client.get("/v1/trust").json() == {"serial": 7, "problem": None}
    assert client.get("/v1/trust", headers=as_("auditor")).status_code == 200
    refused(client.get("/v1/trust", headers=as_("caller")), 403, code="not_permitted")


def test_a_revocation_says_what_it_stopped_and_is_listed(client):
    answer = client.post("/v1/revocations", json={"target": "key", "digest": DIGEST, "reason": "stolen"})
    assert answer.status_code == 201
    (gone,) = answer.json()["withdrawn"]
    assert (gone["name"], gone["version"], gone["reason"]) == ("mlp", 1, f"key {DIGEST} is revoked")
    (entry,) = client.get("/v1/revocations").json()
    assert (entry["target"], entry["digest"], entry["actor"], entry["reason"]) == ("key", DIGEST, "root", "stolen")


def test_only_the_scope_trust_revokes(client, host):
    body = {"target": "key", "digest": DIGEST}
    for token in ("narrow", "publisher", "auditor", "caller"):
        refused(client.post("/v1/revocations", json=body, headers=as_(token)), 403, "trust", code="not_permitted")
    assert host.trust.revoked == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"target":"key"}', b'{"target":"key","digest":"A"}', b'{"target":"x","digest":"%s"}',
             b'{"target":"key","digest":"%s","surplus":1}', b'{"target":"key","digest":"%s\\n"}'],
)  # fmt: skip
def test_what_is_no_revocation_is_refused(client, host, body):
    body = body.replace(b"%s", DIGEST.encode())
    assert "target" in refused(client.post("/v1/revocations", content=body), 400)["hint"]
    assert host.trust.revoked == []


def test_a_signed_policy_reaches_the_host(client, host):
    assert client.put("/v1/trust", content=b"{}").json()["serial"] == 8
    assert host.trust.envelopes == [b"{}"]
    refused(client.put("/v1/trust", content=b"{}", headers=as_("narrow")), 403, "trust", code="not_permitted")
    refused(client.put("/v1/trust", content=bytes((8 << 20) + 1)), 413, code="too_large")


def test_a_permit_is_brought_by_publishers_of_the_model_and_seen_by_them(client, host):
    path = "/v1/trust/permits"
    answer = client.post(path, content=b"acme.x")
    assert (answer.status_code, answer.json()["name"], answer.json()["problem"]) == (201, "acme.x", None)
    (entry,) = client.get(path).json()
    assert (entry["from_bundle"], entry["to_bundle"], entry["actor"]) == ("b" * 64, "c" * 64, "root")
    assert client.get(path, headers=as_("publisher")).status_code == 200
    refused(client.post(path, content=b"acme.x", headers=as_("auditor")), 403, "publish", code="not_permitted")
    refused(client.post(path, content=b"acme.x", headers=as_("caller")), 403, code="not_permitted")
    refused(client.post(path, content=bytes((64 << 10) + 1)), 413, code="too_large")
    assert len(host.trust.kept) == 1


def test_explaining(client):
    path = "/v1/trust/explain"
    assert client.post(path, json={"name": "acme.x", "key": "alice"}).json()["text"] == "alice for acme.x"
    bundle = client.post("/v1/bundles", content=SEAL).json()["id"]
    assert client.post(path, json={"bundle": bundle}).json()["text"] == bundle
    assert client.post(path, json={"bundle": bundle}, headers=as_("publisher")).status_code == 200
    refused(client.post(path, json={"bundle": DIGEST}, headers=as_("caller")), 403, code="not_permitted")
    for body in ({}, {"name": "x"}, {"key": "x"}, {"name": "x", "key": "y", "bundle": DIGEST}, {"bundle": "x"}):
        refused(client.post(path, json=body), 400)
