"""Receipts at the edge: whoever asks gets one, over exactly the bytes that went either way; nobody else pays."""

import gzip
import hashlib
import json

import numpy as np
import pytest

from api.test_infer import ask, infer, refused, tensor

ROW = np.ones((1, 16), np.float32).tobytes()


def said(answer) -> list[str]:
    """What the double's receipt says: bundle, request's and response's SHA-256, class, nonce."""
    return answer.headers["sandseal-receipt"].split(" ")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_receipt_is_about_the_bodies_the_bundle_and_the_class(client, host):
    parameters = {"sandseal.receipt": "n-1", "sandseal.class": "batch"}
    answer = ask(client, "identity", tensor(data=[0] * 16), parameters=parameters)
    bundle = host.models.get("identity").bundle_id
    assert said(answer) == [bundle, sha256(answer.request.content), sha256(answer.content), "batch", "n-1"]
    assert answer.headers["sandseal-bundle"] == bundle


def test_a_stage_that_was_skipped_is_told(client, host, monkeypatch):
    monkeypatch.setattr(host.models.get("identity"), "skipped", ("post",))
    answer = ask(client, "identity", tensor(data=[0] * 16), parameters={"sandseal.receipt": "n-1"})
    assert answer.headers["sandseal-skipped"] == said(answer)[-1] == "post"
    assert "sandseal-skipped" in ask(client, "identity", tensor(data=[0] * 16)).headers


def test_who_does_not_ask_gets_none(client):
    for parameters in ({}, {"sandseal.receipt": False}, {"sandseal.receipt": None}):
        assert "sandseal-receipt" not in ask(client, "identity", tensor(data=[0] * 16), parameters=parameters).headers


def test_binary_bodies_are_covered_whole_and_each_nonce_comes_back(client):
    for nonce in ("first", "second"):
        entry = tensor(parameters={"binary_data_size": len(ROW)})
        document = {"inputs": [entry], "parameters": {"sandseal.receipt": nonce, "binary_data_output": True}}
        answer = infer(client, "identity", document, ROW)
        assert said(answer)[1:] == [sha256(answer.request.content), sha256(answer.content), "standard", nonce]


def test_a_compressed_request_is_covered_as_it_was_before(client):
    document = {"inputs": [tensor(data=[0] * 16)], "parameters": {"sandseal.receipt": "n"}}
    plain = json.dumps(document).encode()
    answer = infer(client, "identity", gzip.compress(plain), headers={"Content-Encoding": "gzip"})
    assert said(answer)[1] == sha256(plain)


def test_a_body_without_json_asks_by_header(client):
    answer = client.post("/v1/models/text/call", content=b"one", headers={"Sandseal-Receipt": "n-2"})
    assert said(answer)[1:] == [sha256(b"one"), sha256(answer.content), "standard", "n-2"]
    headers = {"Inference-Header-Content-Length": "0", "Sandseal-Receipt": "n-3"}
    answer = client.post("/v2/models/identity/infer", content=ROW, headers=headers)
    assert said(answer)[1:] == [sha256(ROW), sha256(answer.content), "standard", "n-3"]


@pytest.mark.parametrize("nonce", ["x" * 129, "a b", "a\nb", "ü", 7, ["n"]])
def test_what_is_no_nonce_is_refused_before_the_model_runs(client, host, nonce):
    refused(ask(client, "identity", tensor(data=[0] * 16), parameters={"sandseal.receipt": nonce}), 400, "nonce")
    assert host.models.get("identity").requests == []


def test_nor_is_it_in_the_header(client, host):
    answer = client.post("/v1/models/text/call", content=b"one", headers={"Sandseal-Receipt": "x" * 129})
    refused(answer, 400, "nonce")
    assert host.models.get("text").requests == []


def test_an_error_has_no_receipt(client):
    answer = ask(client, "identity", tensor(data=[0]), parameters={"sandseal.receipt": "n"})
    assert answer.status_code == 400
    assert "sandseal-receipt" not in answer.headers
