"""Signed documents: an envelope of several signatures, of which distinct holders count."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.envelope import pae
from sandseal_signing.errors import EnvelopeInvalid, JsonInvalid, LimitExceeded, PolicyRefused, SignatureInvalid
from sandseal_signing.keys import PrivateKey
from support.bundles import trust

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEYS = {name: PrivateKey.generate() for name in ("ops1", "ops2", "ops3")}
SIGNED = Document(b"serial = 2", TRUST_TYPE).sign([KEYS["ops1"], KEYS["ops2"]])


def parse(data: bytes) -> Document:
    return Document.parse(data, TRUST_TYPE, "the envelope")


def test_parse_and_render_are_inverses_and_the_form_is_plain_dsse():
    assert parse(SIGNED.render()) == SIGNED
    plain = json.loads(SIGNED.render())
    assert set(plain) == {"payload", "payloadType", "signatures"}
    message = pae(TRUST_TYPE, base64.b64decode(plain["payload"]))
    for key, signature in zip(("ops1", "ops2"), plain["signatures"], strict=True):
        assert KEYS[key].public.verifies(base64.b64decode(signature["sig"]), message)


def test_signing_again_with_the_same_key_adds_nothing():
    assert len(SIGNED.sign([KEYS["ops1"]]).signatures) == 2
    assert len(SIGNED.sign([KEYS["ops3"]]).signatures) == 3


def test_distinct_holders_count_and_strangers_do_not():
    policy = trust(KEYS)
    stranger = SIGNED.sign([PrivateKey.generate()])
    assert stranger.approved(policy, list(KEYS), 2, NOW) == ("ops1@acme", "ops2@acme")
    with pytest.raises(PolicyRefused, match=r"2 of 3 holders signed .* out of: ops3@acme"):
        stranger.approved(policy, list(KEYS), 3, NOW)
    with pytest.raises(PolicyRefused, match="1 of 2"):
        SIGNED.approved(policy, ["ops1", "ops3"], 2, NOW)
    same = trust(KEYS)
    object.__setattr__(same.keys["ops2"], "holder", "ops1@acme")
    with pytest.raises(PolicyRefused, match="1 of 2"):
        SIGNED.approved(same, list(KEYS), 2, NOW)


def test_revoked_and_ended_keys_count_for_nothing():
    revoked = trust(KEYS, tail=f'[revoked]\nkeys = ["{KEYS["ops1"].public.fingerprint}"]\n')
    ended = trust(KEYS)
    object.__setattr__(ended.keys["ops1"], "not_after", NOW)
    for policy in (revoked, ended):
        with pytest.raises(PolicyRefused, match="1 of 2"):
            SIGNED.approved(policy, list(KEYS), 2, NOW)
    assert SIGNED.approved(ended, list(KEYS), 2, NOW - timedelta(seconds=1))


def test_a_changed_payload_type_or_signature_is_noticed():
    for changed in (
        Document(b"serial = 3", TRUST_TYPE, SIGNED.signatures),
        Document(SIGNED.payload, "text/plain", SIGNED.signatures),
        Document(SIGNED.payload, TRUST_TYPE, ((SIGNED.signatures[0][0], bytes(64)),)),
    ):
        with pytest.raises(SignatureInvalid, match="ops1"):
            changed.approved(trust(KEYS), list(KEYS), 1, NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"payloadType": "application/vnd.in-toto+json"},
        {"payload": "!"},
        {"signatures": {}},
        {"signatures": [{"keyid": "a", "sig": ""}, {"keyid": "a", "sig": ""}]},
        {"signatures": [{"keyid": "a"}]},
        {"signatures": [{"keyid": "", "sig": ""}]},
        {"surplus": 1},
    ],
)
def test_what_is_no_such_envelope_is_refused(change):
    with pytest.raises(EnvelopeInvalid):
        parse(json.dumps(json.loads(SIGNED.render()) | change).encode())


def test_limits_and_strict_json():
    with pytest.raises(LimitExceeded):
        parse(bytes((8 << 20) + 1))
    many = {"signatures": [{"keyid": str(number), "sig": ""} for number in range(17)]}
    with pytest.raises(LimitExceeded):
        parse(json.dumps(json.loads(SIGNED.render()) | many).encode())
    with pytest.raises(JsonInvalid):
        parse(SIGNED.render()[:-1])
