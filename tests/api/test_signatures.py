"""The control plane's late signatures."""

from dataclasses import replace

from api.test_control import SEAL, as_
from api.test_infer import refused


def pending(client, host) -> str:
    """A pending bundle's id."""
    bundle = client.post("/v1/bundles", content=SEAL).json()["id"]
    host.bundles.accepted[0] = replace(host.bundles.accepted[0], state="pending", accepted_at=None, detail="1 of 2")
    return bundle


def test_a_signature_reaches_its_bundle(client, host):
    bundle = pending(client, host)
    shown = client.get(f"/v1/bundles/{bundle}").json()
    assert (shown["state"], shown["accepted_at"], shown["detail"]) == ("pending", None, "1 of 2")
    answer = client.post(f"/v1/bundles/{bundle}/signatures", content=b"signature")
    assert answer.status_code == 200
    assert answer.json()["holders"] == ["root", "root"]
    assert host.bundles.streams[-1] == b"signature"


def test_an_upload_that_must_wait_is_answered_202(client, host):
    accept = host.bundles.accept
    host.bundles.accept = lambda stream, publisher: replace(accept(stream, publisher), state="pending")
    assert client.post("/v1/bundles", content=SEAL).status_code == 202


def test_who_may_sign_and_what(client, host):
    bundle = pending(client, host)
    path = f"/v1/bundles/{bundle}/signatures"
    refused(client.post(path, content=b"x", headers=as_("caller")), 403, code="not_permitted")
    refused(client.post(path.replace(bundle, "0" * 64), content=b"x"), 404, code="bundle_unknown")
    refused(client.post(path, content=bytes(8 << 20) + b"x"), 413, code="too_large")
    host.tokens.grants["publisher"] = replace(host.tokens.grants["publisher"], models="other.*")
    refused(client.post(path, content=b"x", headers=as_("publisher")), 404, code="bundle_unknown")
