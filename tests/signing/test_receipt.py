import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.checkpoint import Checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import MEDIA_TYPE, Envelope, pae
from sandseal_signing.errors import ReceiptInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.merkle import MAX_SIZE, TreeHead
from sandseal_signing.receipt import MAX_BYTES, PAYLOAD_TYPE, Receipt, is_nonce, make_receipt, verify_receipt
from sandseal_signing.schema import canonical_json
from support.keys import ed25519_key

KEY = ed25519_key("receipts")
RECEIPT = Receipt(
    bundle=Digest.of(b"statement"),
    plugins={"pre": Digest.of(b"pre.wasm"), "post": Digest.of(b"post.wasm")},
    request=Digest.of(b"request"),
    response=Digest.of(b"response"),
    time=datetime(2026, 11, 30, 12, 0, 0, 250, UTC),
    service_class="interactive",
    nonce="q83vEjRWeJA=",
    log=Checkpoint("example.com/log", TreeHead(42, bytes(range(32)))),
)
SIGNED = make_receipt(RECEIPT, KEY)


def test_a_receipt_is_an_envelope_of_its_own_type() -> None:
    document = json.loads(SIGNED)
    assert document["mediaType"] == MEDIA_TYPE
    assert document["dsseEnvelope"]["payloadType"] == "application/vnd.sandseal.receipt+json"
    assert json.loads(base64.b64decode(document["dsseEnvelope"]["payload"])) == {
        "schema": "sandseal.receipt/1",
        "bundle": RECEIPT.bundle.hex,
        "plugins": {"pre": Digest.of(b"pre.wasm").hex, "post": Digest.of(b"post.wasm").hex},
        "request": Digest.of(b"request").hex,
        "response": Digest.of(b"response").hex,
        "time": "2026-11-30T12:00:00.000250Z",
        "class": "interactive",
        "nonce": "q83vEjRWeJA=",
        "log": {"origin": "example.com/log", "size": 42, "root": bytes(range(32)).hex()},
    }


def test_a_pipeline_s_receipt_names_the_bundles_that_took_part() -> None:
    receipt = replace(RECEIPT, members={"find": Digest.of(b"detection"), "read": Digest.of(b"recognition")})
    assert verify_receipt(make_receipt(receipt, KEY), KEY.public) == receipt


def test_a_receipt_can_be_the_value_of_a_header() -> None:
    assert SIGNED.isascii()
    assert SIGNED.decode().isprintable()
    assert len(SIGNED) < 2048


def test_file_and_key_are_enough() -> None:
    assert verify_receipt(SIGNED, KEY.public) == RECEIPT


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Receipt,
        bundle=st.builds(Digest.of, st.binary()),
        plugins=st.dictionaries(
            st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True), st.builds(Digest.of, st.binary())
        ),
        request=st.builds(Digest.of, st.binary()),
        response=st.builds(Digest.of, st.binary()),
        time=st.datetimes(datetime(1000, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001 (hypothesis adds the zone)
        service_class=st.sampled_from(["interactive", "batch"]),
        nonce=st.from_regex(r"[!-~]{0,128}", fullmatch=True),
        log=st.builds(
            Checkpoint,
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
            st.builds(TreeHead, st.integers(0, MAX_SIZE), st.binary(min_size=32, max_size=32)),
        ),
    )
)
def test_make_and_verify_are_inverses(receipt: Receipt) -> None:
    assert verify_receipt(make_receipt(receipt, KEY), KEY.public) == receipt


def test_a_reader_that_shares_no_code_agrees() -> None:
    nacl = pytest.importorskip("nacl.signing")
    document = json.loads(SIGNED)["dsseEnvelope"]
    payload, signature = base64.b64decode(document["payload"]), base64.b64decode(document["signatures"][0]["sig"])
    message = b"DSSEv1 37 application/vnd.sandseal.receipt+json %d %b" % (len(payload), payload)
    assert nacl.VerifyKey(KEY.public.der[-32:]).verify(message, signature) == message


def test_another_key_s_receipt_is_refused() -> None:
    with pytest.raises(ReceiptInvalid, match=r"is signed by the key of hint [0-9a-f]{16}, not by that of"):
        verify_receipt(SIGNED, ed25519_key("other").public)
    forged = replace(Envelope.parse(make_receipt(RECEIPT, ed25519_key("other")), "x"), hint=KEY.public.hint)
    with pytest.raises(ReceiptInvalid, match="does not verify"):
        verify_receipt(forged.render(), KEY.public)


def test_what_else_the_key_signed_is_no_receipt() -> None:
    payload = Envelope.parse(SIGNED, "x").payload
    with pytest.raises(ReceiptInvalid, match=r"this is signed 'application/vnd\.in-toto\+json', not a receipt"):
        verify_receipt(Envelope.sign(payload, KEY).render(), KEY.public)
    relabelled = replace(Envelope.sign(payload, KEY), payload_type=PAYLOAD_TYPE)
    with pytest.raises(ReceiptInvalid, match="does not verify"):
        verify_receipt(relabelled.render(), KEY.public)


def test_every_flipped_byte_and_every_truncation_is_noticed() -> None:
    for at in range(len(SIGNED)):
        for changed in (SIGNED[:at], SIGNED[:at] + bytes([SIGNED[at] ^ 1]) + SIGNED[at + 1 :]):
            with pytest.raises(ReceiptInvalid):
                verify_receipt(changed, KEY.public)


def signed(payload: bytes, key: PrivateKey = KEY) -> bytes:
    return Envelope(payload, PAYLOAD_TYPE, key.sign(pae(PAYLOAD_TYPE, payload)), key.public.hint).render()


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another schema": (lambda d: d.update(schema="sandseal.receipt/2"), "schema: must be"),
    "another member": (lambda d: d.update(extra=1), "extra: is not a member"),
    "no bundle": (lambda d: d.pop("bundle"), "bundle: is missing"),
    "an upper-case digest": (lambda d: d.update(request="AB" * 32), "request: must be 64 lower-case"),
    "no response": (lambda d: d.update(response=None), "response: must be 64 lower-case"),
    "plugins in a list": (lambda d: d.update(plugins=[]), "plugins: must be an object"),
    "a stage without name": (lambda d: d["plugins"].update({"": "a" * 64}), "is not the name of a stage"),
    "a stage without digest": (lambda d: d["plugins"].update(pre=1), "pre: must be 64"),
    "a time without zone": (lambda d: d.update(time="2026-11-30T12:00:00.000000"), "time: must be"),
    "a class with spaces": (lambda d: d.update({"class": "a b"}), "class: must be"),
    "a nonce too long": (lambda d: d.update(nonce="a" * 129), "nonce: must be at most 128"),
    "a nonce with a space": (lambda d: d.update(nonce="a b"), "nonce: must be at most 128"),
    "no log": (lambda d: d.pop("log"), "log: is missing"),
    "a log of negative size": (lambda d: d["log"].update(size=-1), "size: must be"),
    "a log with more": (lambda d: d["log"].update(index=1), "log.index: is not a member"),
    "a root in base64": (lambda d: d["log"].update(root="A" * 43 + "="), "root: must be"),
}


@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES)
def test_what_is_no_receipt_though_signed(change: Callable[[dict[str, Any]], Any], why: str) -> None:
    document = json.loads(Envelope.parse(SIGNED, "x").payload)
    change(document)
    with pytest.raises(ReceiptInvalid, match=why):
        verify_receipt(signed(canonical_json(document)), KEY.public)


def test_a_receipt_is_strict_json_of_limited_size() -> None:
    payload = Envelope.parse(SIGNED, "x").payload
    with pytest.raises(ReceiptInvalid, match="stands twice"):
        verify_receipt(signed(payload[:-1] + b',"nonce":""}'), KEY.public)
    with pytest.raises(ReceiptInvalid, match="not strict JSON"):
        verify_receipt(b"{", KEY.public)
    with pytest.raises(ReceiptInvalid, match="over 16384"):
        verify_receipt(bytes(MAX_BYTES + 1), KEY.public)


def test_which_nonces_a_client_may_send() -> None:
    assert all(map(is_nonce, ("", "a", "~" * 128, "q83vEjRWeJA=")))
    assert not any(map(is_nonce, (" ", "a b", "a\n", "\u00e4", "a" * 129)))
