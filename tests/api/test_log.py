"""The log's routes: what an auditor gets, who else gets it, and what is refused."""

import pytest

from api.test_control import as_
from api.test_infer import refused
from sandseal_signing.checkpoint import open_checkpoint
from sandseal_signing.keys import PublicKey
from sandseal_signing.logentry import LogEntry
from sandseal_signing.logproof import LogProof
from sandseal_signing.merkle import decode_hash, verify_consistency
from sandseal_signing.note import VerifierKey


@pytest.fixture
def key(client):
    return VerifierKey.parse(client.get("/v1/log/keys").json()["log"])


def test_checkpoint(client, key):
    answer = client.get("/v1/log/checkpoint", headers=as_("auditor"))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert open_checkpoint(answer.content, key).head.size == 3


def test_entries_come_verbatim_one_a_line(client, host):
    answer = client.get("/v1/log/entries?start=1&end=3", headers=as_("auditor"))
    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.content.splitlines() == host.log.lines[1:]
    assert [LogEntry.parse(line).subject.serial for line in answer.content.splitlines()] == [2, 3]


def test_an_entrys_proof(client, host, key):
    for query, size in (("index=1", 3), ("index=1&size=2", 2)):
        proof = LogProof.parse(client.get(f"/v1/log/proof?{query}").content)
        assert proof.verify(host.log.lines[1], key).head.size == size


def test_the_proof_between_two_sizes(client, host, key):
    lines = client.get("/v1/log/proof?old=1&new=3").text.split()
    heads = [LogProof.parse(host.log.prove(0, size).render()).verify(host.log.lines[0], key).head for size in (1, 3)]
    verify_consistency(*heads, list(map(decode_hash, lines)))


@pytest.mark.parametrize(
    "path", ["proof?index=3", "proof?index=0&size=4", "proof?old=2&new=4", "entries?start=3&end=3"]
)
def test_what_is_not_in_the_log(client, path):
    refused(client.get(f"/v1/log/{path}"), 400, code="proof_invalid")


@pytest.mark.parametrize(
    "query", ["", "?size=2", "?index=1&old=1", "?old=1", "?old=1&new=2&size=2", "?index=-1", "?index=x"]
)
def test_a_proof_of_nothing(client, query):
    refused(client.get(f"/v1/log/proof{query}"), 400, code="request_invalid")


@pytest.mark.parametrize("path", ["checkpoint", "entries?start=0&end=1", "proof?index=0"])
def test_who_may_read(client, path):
    assert client.get(f"/v1/log/{path}", headers=as_("auditor")).status_code == 200
    refused(client.get(f"/v1/log/{path}", headers=as_("caller")), 403, "audit or operate", code="not_permitted")
    refused(client.get(f"/v1/log/{path}", headers=as_("narrow")), 403, "all models", code="not_permitted")


def test_every_token_may_have_the_keys(client, host):
    keys = client.get("/v1/log/keys", headers=as_("caller")).json()
    assert keys["log"] == host.log.verifier.render()
    assert PublicKey.parse(keys["receipt"]) == host.receipts.public
    refused(client.get("/v1/log/keys", headers=as_("nobody")), 401, code="not_authenticated")
