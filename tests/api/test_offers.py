"""Offers over HTTP: pieces, where they go on, and what is said to those whom an offer is none of the business of."""

import pytest

from api.offers_double import CONTENTS
from api.test_control import as_
from api.test_infer import refused
from sandseal_host.api.grant import Grant
from sandseal_host.errors import VersionStale
from sandseal_host.registry.tokens import Scope
from sandseal_signing.digest import Digest

LARGE, SMALL = (Digest.of(content).hex for content in CONTENTS)


def offer(client, **options):
    answer = client.post("/v1/bundles/offers", content=b"head", **options)
    assert answer.status_code == 200
    return answer.json()


def path(digest, offer):
    return f"/v1/blobs/sha256/{digest}?offer={offer}"


def piece(client, offer, digest, content, at, size=None):
    size = len(CONTENTS[digest == SMALL]) if size is None else size
    headers = {"Content-Range": f"bytes {at}-{at + len(content) - 1}/{size}"}
    return client.request("PUT", path(digest, offer), content=content, headers=headers)


def test_an_offer_is_sent_in_pieces_and_finished(client, host):
    made = offer(client)
    assert [(blob["digest"], blob["offset"]) for blob in made["missing"]] == [(LARGE, 0), (SMALL, 0)]
    assert piece(client, made["id"], LARGE, CONTENTS[0][:50_000], 0).json()["offset"] == 50_000
    head = client.request("HEAD", path(LARGE, made["id"]))
    assert (head.status_code, head.content) == (200, b"")
    shown = {name: head.headers[f"upload-{name}"] for name in ("offset", "length", "complete")}
    assert shown == {"offset": "50000", "length": "120000", "complete": "?0"}
    rest = piece(client, made["id"], LARGE, CONTENTS[0][50_000:], 50_000)
    assert (rest.status_code, rest.headers["upload-complete"]) == (200, "?1")
    assert client.request("PUT", path(SMALL, made["id"]), content=CONTENTS[1]).json()["offset"] == 5
    assert bytes(host.offers.arrived["root", made["id"]][LARGE]) == CONTENTS[0]
    finished = client.post(f"/v1/bundles/{made['id']}/finish")
    assert (finished.status_code, finished.json()["name"]) == (201, "acme.large")


def test_finishing_again_answers_the_bundle_to_those_who_may_see_it(client, host):
    made = offer(client)
    bundle = client.post(f"/v1/bundles/{made['id']}/finish").json()
    again = f"/v1/bundles/{bundle['id']}/finish"
    assert client.post(again).json() == bundle
    assert client.post(again, headers=as_("publisher")).status_code == 201
    host.tokens.grants["blind"] = Grant("blind", frozenset({Scope.PUBLISH}), models="other.*")
    refused(client.post(again, headers=as_("blind")), 404, code="bundle_unknown")


def test_a_piece_that_does_not_fit_says_where_to_go_on(client):
    made = offer(client)
    assert refused(piece(client, made["id"], LARGE, b"x", 7), 409, code="offset_wrong")["offset"] == 0
    for bad in ("bytes 5-1/120000", "bytes 0-119999/119999", "bytes 0-120000/120000", "bytes */120000", "items 0-1/2"):
        headers = {"Content-Range": bad}
        refused(client.request("PUT", path(LARGE, made["id"]), content=b"x", headers=headers), 400)


def test_other_tokens_offers_and_unknown_digests_answer_alike(client):
    made = offer(client)
    stranger = "f" * 64
    for method in ("HEAD", "PUT"):
        answers = [
            client.request(method, path(LARGE, made["id"]), headers=as_("publisher")),
            client.request(method, path(stranger, made["id"])),
            client.request(method, path(LARGE, stranger)),
            client.request(method, path("x", made["id"])),
        ]
        assert {answer.status_code for answer in answers} == {404}
        texts = {answer.text.replace(LARGE, "D").replace(stranger, "D").replace(" x", " D") for answer in answers}
        assert len(texts) == 1


@pytest.mark.parametrize("token", ["caller", "narrow", "auditor"])
def test_only_publishers_offer(client, token):
    refused(client.post("/v1/bundles/offers", content=b"head", headers=as_(token)), 403, code="not_permitted")
    refused(client.request("PUT", path(LARGE, "0" * 64), headers=as_(token)), 403, code="not_permitted")
    refused(client.post("/v1/bundles/x/finish", headers=as_(token)), 403, code="not_permitted")


def test_a_refused_head_and_one_that_is_too_large(client, host):
    host.offers.refuse = VersionStale("version 1 is not above 2")
    refused(client.post("/v1/bundles/offers", content=b"head"), 409, code="version_stale")
    refused(client.post("/v1/bundles/offers", content=bytes((33 << 20) + 1)), 413, code="too_large")


def test_an_offer_can_be_withdrawn(client):
    made = offer(client)
    assert client.delete(f"/v1/bundles/offers/{made['id']}").status_code == 204
    refused(client.request("PUT", path(LARGE, made["id"]), content=b"x"), 404, code="blob_unknown")
    refused(client.delete(f"/v1/bundles/offers/{made['id']}"), 404, code="bundle_unknown")


def test_a_body_longer_than_the_blob_is_not_read_to_its_end(client, host):
    made = offer(client)
    refused(client.request("PUT", path(SMALL, made["id"]), content=bytes(1 << 20)), 413, code="too_large")
