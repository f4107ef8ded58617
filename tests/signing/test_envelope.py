import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.envelope import (
    MAX_FILE_BYTES,
    MAX_SIGNATURE_BYTES,
    MEDIA_TYPE,
    PAYLOAD_TYPE,
    Envelope,
    pae,
    parse_signatures,
)
from sandseal_signing.errors import EnvelopeInvalid, JsonInvalid, LimitExceeded
from support.keys import ed25519_key, p256_key, p384_key

ALICE = ed25519_key("alice")
SIGNED = Envelope.sign(b'{"payload": true}', ALICE)


def test_pae_counts_bytes() -> None:
    assert (
        pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pae("", b"") == b"DSSEv1 0  0 "
    assert pae("\u00e4", b"\0 ") == b"DSSEv1 2 \xc3\xa4 2 \0 "


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([ALICE, p256_key("alice"), p384_key("alice")]))
def test_render_and_parse_are_inverses(payload: bytes, key: Any) -> None:
    envelope = Envelope.sign(payload, key)
    assert Envelope.parse(envelope.render(), "x") == envelope
    assert envelope.verifies(key.public)
    assert not envelope.verifies(ed25519_key("bob").public)


def test_a_signature_file_is_canonical_json_named_after_its_hint() -> None:
    assert SIGNED.file_name == f"signatures/{ALICE.public.hint[:16]}.sig"
    assert json.loads(SIGNED.render()) == {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": ALICE.public.hint}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(SIGNED.payload).decode(),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{"keyid": ALICE.public.hint, "sig": base64.b64encode(SIGNED.signature).decode()}],
        },
    }


def test_the_signature_binds_payload_and_type() -> None:
    assert not Envelope(SIGNED.payload + b" ", PAYLOAD_TYPE, SIGNED.signature, SIGNED.hint).verifies(ALICE.public)
    assert not Envelope(SIGNED.payload, "text/plain", SIGNED.signature, SIGNED.hint).verifies(ALICE.public)


def parse(change: Callable[[dict[str, Any]], Any]) -> Envelope:
    """Parse the signed file after a change to its JSON."""
    document = json.loads(SIGNED.render())
    change(document)
    return Envelope.parse(json.dumps(document).encode(), "signatures/x.sig")


def signature(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["dsseEnvelope"]["signatures"][0]
    return found


@pytest.mark.parametrize("keyid", ["", None, ALICE.public.hint])
def test_keyid_may_repeat_the_hint_or_say_nothing(keyid: str | None) -> None:
    assert parse(lambda d: signature(d).update(keyid=keyid)) == SIGNED
    assert parse(lambda d: signature(d).pop("keyid")) == SIGNED


def test_either_alphabet_is_read_and_means_the_same() -> None:
    envelope = Envelope.sign(b"\xfb\xff\xbf\xfb\xff\xbf", ALICE)
    document = json.loads(envelope.render())
    for node, member in ((document["dsseEnvelope"], "payload"), (signature(document), "sig")):
        node[member] = node[member].replace("+", "-").replace("/", "_")
    assert document["dsseEnvelope"]["payload"] == "-_-_-_-_"
    assert Envelope.parse(json.dumps(document).encode(), "x") == envelope


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-_+/", "must be base64 in one alphabet"),
        ("_w+=", "must be base64 in one alphabet"),
        ("AA==\n", "must be base64 in one alphabet"),
        ("A A=", "must be base64 in one alphabet"),
        ("A===", "must be base64 in one alphabet"),
        ("AA==AA==", "must be base64 in one alphabet"),
        ("\u00c4A==", "must be base64 in one alphabet"),
        (7, "must be base64 in one alphabet"),
        (None, "must be base64 in one alphabet"),
        ("AA", "is not base64"),
        ("AA=", "is not base64"),
        ("A", "is not base64"),
        ("AAA", "is not base64"),
        ("AB==", "is not the one base64 form"),
        ("AAB=", "is not the one base64 form"),
        ("AAAA==", "is not"),
    ],
    ids=lambda value: ascii(value),
)
def test_base64_is_strict(text: Any, why: str) -> None:
    for change in (lambda d: d["dsseEnvelope"].update(payload=text), lambda d: signature(d).update(sig=text)):
        with pytest.raises(EnvelopeInvalid, match=why):
            parse(change)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "an older media type": (lambda d: d.update(mediaType=MEDIA_TYPE.replace("v0.3", "v0.1")), "mediaType: must be"),
    "no media type": (lambda d: d.pop("mediaType"), "mediaType: is missing"),
    "another member": (lambda d: d.update(extra=1), "extra: is not a member"),
    "no material": (lambda d: d.pop("verificationMaterial"), "verificationMaterial: is missing"),
    "a certificate": (lambda d: d["verificationMaterial"].update(certificate={}), "certificate: is not a member"),
    "no key": (lambda d: d["verificationMaterial"].pop("publicKey"), "publicKey: is missing"),
    "a raw key": (
        lambda d: d["verificationMaterial"]["publicKey"].update(rawBytes="AA=="),
        "rawBytes: is not a member",
    ),
    "no hint": (lambda d: d["verificationMaterial"]["publicKey"].pop("hint"), "hint: is missing"),
    "a short hint": (lambda d: d["verificationMaterial"]["publicKey"].update(hint="ab"), "hint: must be 64"),
    "a hint with a path": (
        lambda d: d["verificationMaterial"]["publicKey"].update(hint="../" * 20 + "abcd"),
        "hint: must be 64",
    ),
    "an upper-case hint": (
        lambda d: d["verificationMaterial"]["publicKey"].update(hint=ALICE.public.hint.upper()),
        "hint: must be 64",
    ),
    "no log entries": (lambda d: d["verificationMaterial"].pop("tlogEntries"), "tlogEntries: is missing"),
    "log entries that are no list": (
        lambda d: d["verificationMaterial"].update(tlogEntries={}),
        "tlogEntries: must be a list",
    ),
    "no envelope": (lambda d: d.pop("dsseEnvelope"), "dsseEnvelope: is missing"),
    "no payload": (lambda d: d["dsseEnvelope"].pop("payload"), "payload: is missing"),
    "no payload type": (lambda d: d["dsseEnvelope"].pop("payloadType"), "payloadType: is missing"),
    "another envelope member": (lambda d: d["dsseEnvelope"].update(extra=1), "extra: is not a member"),
    "no signature": (lambda d: d["dsseEnvelope"].update(signatures=[]), "exactly one signature, not 0"),
    "two signatures": (
        lambda d: d["dsseEnvelope"].update(signatures=[signature(d), signature(d)]),
        "exactly one signature, not 2",
    ),
    "signatures that are no list": (lambda d: d["dsseEnvelope"].update(signatures={}), "signatures: must be a list"),
    "no sig": (lambda d: signature(d).pop("sig"), "sig: is missing"),
    "another signature member": (lambda d: signature(d).update(extra=1), "extra: is not a member"),
    "another keyid": (lambda d: signature(d).update(keyid="0" * 64), "keyid: must be the hint"),
    "a keyid that is no text": (lambda d: signature(d).update(keyid=0), "keyid: must be the hint"),
}


@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES)
def test_what_is_no_signature_file(change: Callable[[dict[str, Any]], Any], why: str) -> None:
    with pytest.raises(EnvelopeInvalid, match=why) as caught:
        parse(change)
    assert caught.value.message.startswith("signatures/x.sig")


def test_a_signature_file_is_strict_json_of_limited_size() -> None:
    with pytest.raises(JsonInvalid, match="stands twice"):
        Envelope.parse(SIGNED.render()[:-1] + b',"mediaType":""}', "x")
    with pytest.raises(LimitExceeded, match="x has 8388609 bytes, over 8388608"):
        Envelope.parse(bytes(MAX_FILE_BYTES + 1), "x")


def files(*envelopes: Envelope) -> dict[str, bytes]:
    return {envelope.file_name: envelope.render() for envelope in envelopes}


def test_all_signature_files_of_a_bundle_are_read_in_the_order_of_their_names() -> None:
    envelopes = [Envelope.sign(b"{}", key) for key in (ALICE, ed25519_key("bob"), p256_key("alice"))]
    read = parse_signatures(files(*envelopes))
    assert read == tuple(sorted(envelopes, key=lambda envelope: envelope.hint))
    assert parse_signatures({}) == ()


def test_all_signature_files_of_a_bundle_sign_one_payload() -> None:
    with pytest.raises(EnvelopeInvalid, match="signs another statement than"):
        parse_signatures(files(SIGNED, Envelope.sign(SIGNED.payload + b" ", ed25519_key("bob"))))


def test_a_signature_file_is_called_after_its_hint() -> None:
    with pytest.raises(EnvelopeInvalid, match=f"must be called '{SIGNED.file_name}'"):
        parse_signatures({"signatures/0000000000000000.sig": SIGNED.render()})


def test_signature_files_are_limited_in_number_and_size() -> None:
    envelopes = [Envelope.sign(b"{}", ed25519_key(f"key {i}")) for i in range(17)]
    assert len(parse_signatures(files(*envelopes[:16]))) == 16
    with pytest.raises(LimitExceeded, match="more than 16 signatures"):
        parse_signatures(files(*envelopes))
    with pytest.raises(LimitExceeded, match="33554432 bytes"):
        parse_signatures({"a": bytes(MAX_SIGNATURE_BYTES), "b": b"x"})
