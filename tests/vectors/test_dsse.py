"""secure-systems-lab/dsse: PAE, both base64 alphabets, and thresholds over distinct keys."""

import base64
from typing import Any

import pytest

from sandseal_signing.envelope import MEDIA_TYPE, Envelope, pae
from sandseal_signing.errors import EnvelopeInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.schema import canonical_json
from support.keys import seeded_key
from support.shared import json_vectors


@pytest.fixture(scope="module")
def document() -> Any:
    return json_vectors("dsse/vectors.json")


@pytest.fixture(scope="module")
def keys(document: Any) -> dict[str, PrivateKey]:
    return {name: seeded_key(bytes.fromhex(key["seed"])) for name, key in document["keys"].items()}


def envelopes(vector: Any, keys: dict[str, PrivateKey]) -> list[Envelope]:
    """The vector's envelope as signature files, which hold one signature each; hints play no part here."""
    material = {"publicKey": {"hint": keys["A"].public.hint}, "tlogEntries": []}
    return [
        Envelope.parse(
            canonical_json(
                {
                    "mediaType": MEDIA_TYPE,
                    "verificationMaterial": material,
                    "dsseEnvelope": {**vector["envelope"], "signatures": [{"sig": signature["sig"]}]},
                }
            ),
            vector["id"],
        )
        for signature in vector["envelope"]["signatures"]
    ]


def test_the_keys_are_their_seeds(document: Any, keys: dict[str, PrivateKey]) -> None:
    for name, key in document["keys"].items():
        assert keys[name].public.inline == "ed25519:" + base64.b64encode(bytes.fromhex(key["public"])).decode()


def test_dsse(document: Any, keys: dict[str, PrivateKey]) -> None:
    judged = {}
    for vector in document["vectors"]:
        dsse = vector["envelope"]
        try:
            read = envelopes(vector, keys)
        except EnvelopeInvalid:  # an empty payload type
            judged[vector["id"]] = "reject"
            continue
        if vector["id"] != "payload-type-swapped":  # there it is what was signed, not what the envelope says
            assert all(pae(e.payload_type, e.payload).hex() == vector["pae"] for e in read)
        supported = dsse["payloadType"] in vector["supportedPayloadTypes"]
        distinct = {name for name in vector["trustedKeys"] for e in read if e.verifies(keys[name].public)}
        judged[vector["id"]] = "accept" if supported and len(distinct) >= vector["threshold"] else "reject"
    assert judged == {vector["id"]: vector["expect"] for vector in document["vectors"]}


def test_signing_gives_the_published_signature(document: Any, keys: dict[str, PrivateKey]) -> None:
    vector = document["vectors"][0]
    payload = base64.b64decode(vector["envelope"]["payload"])
    assert (
        base64.b64encode(Envelope.sign(payload, keys["A"]).signature).decode()
        == vector["envelope"]["signatures"][0]["sig"]
    )
