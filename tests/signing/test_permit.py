"""Downgrade permits: one text for each, and a rule's distinct holders behind it."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandseal_signing.digest import Digest
from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.errors import (
    EnvelopeInvalid,
    JsonInvalid,
    LimitExceeded,
    PermitInvalid,
    PolicyRefused,
    SandsealError,
    SignatureInvalid,
)
from sandseal_signing.permit import PERMIT_TYPE, Permit, check_permit, read_permit
from sandseal_signing.schema import canonical_json
from support.bundles import trust
from support.keys import ed25519_key

NOW = datetime(2027, 6, 1, tzinfo=UTC)
KEYS = {name: ed25519_key(name) for name in ("alice", "bob", "eve")}
POLICY = trust(KEYS, {"keys": ["alice", "bob"], "threshold": 2})
PERMIT = Permit("acme.tiny", Digest("a" * 64), Digest("b" * 64), NOW + timedelta(days=1), "n" * 16)
BOTH = Document(PERMIT.render(), PERMIT_TYPE).sign([KEYS["alice"], KEYS["bob"]])


@given(
    st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.from_regex(r"[A-Za-z0-9_-]{16,128}", fullmatch=True),
    st.from_regex(r"[a-z0-9][a-z0-9._-]{0,127}", fullmatch=True),
)
def test_parse_and_render_are_inverses(expires: datetime, nonce: str, name: str) -> None:
    permit = replace(PERMIT, expires=expires, nonce=nonce, name=name)
    assert Permit.parse(permit.render()) == permit


def test_its_id_is_the_digest_of_what_is_signed() -> None:
    document, permit = read_permit(BOTH.render())
    assert permit == PERMIT
    assert permit.id == Digest.of(document.payload)
    assert replace(PERMIT, nonce="m" * 16).id != permit.id


def test_the_holders_of_the_rule_stand_behind_it() -> None:
    assert check_permit(BOTH, POLICY, NOW) == ("alice@acme", "bob@acme")


@pytest.mark.parametrize(
    ("document", "policy", "now", "why"),
    [
        (BOTH, POLICY, PERMIT.expires, "the permit expired at 2027-06-02T00:00:00"),
        (BOTH, trust(KEYS, {"models": ["other.*"]}), NOW, "no rule covers the name 'acme.tiny'"),
        (Document(BOTH.payload, PERMIT_TYPE).sign([KEYS["alice"]]), POLICY, NOW, "1 of 2 holders"),
        (Document(BOTH.payload, PERMIT_TYPE).sign([KEYS["alice"], KEYS["eve"]]), POLICY, NOW, "1 of 2 holders"),
        (
            BOTH,
            trust(KEYS, {"threshold": 3}, tail=f'[revoked]\nkeys = ["{KEYS["bob"].public.fingerprint}"]'),
            NOW,
            "1 of 3 holders",
        ),
    ],
    ids=["expired", "no rule", "too few", "of another rule", "revoked"],
)
def test_what_counts_for_nothing(document: Document, policy: Any, now: datetime, why: str) -> None:
    with pytest.raises(PolicyRefused, match=why):
        check_permit(document, policy, now)


def test_a_signature_over_another_document_does_not_verify() -> None:
    other = Document(replace(PERMIT, target=Digest("c" * 64)).render(), PERMIT_TYPE, BOTH.signatures)
    typed = Document(BOTH.payload, TRUST_TYPE).sign([KEYS["alice"], KEYS["bob"]])
    for forged in (other, Document(BOTH.payload, PERMIT_TYPE, typed.signatures)):
        with pytest.raises(SignatureInvalid):
            check_permit(forged, POLICY, NOW)


def _with(**members: Any) -> Callable[[], bytes]:
    return lambda: canonical_json(json.loads(PERMIT.render()) | members)


def _without(member: str) -> bytes:
    return canonical_json({name: value for name, value in json.loads(PERMIT.render()).items() if name != member})


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (_with(schema="sandseal.permit/2"), "schema: must be"),
        (_with(name="Acme"), "name: must be"),
        (_with(to="b" * 63), "to: must be 64"),
        (_with(to="a" * 64), "is the bundle that it leads away from"),
        (_with(expires="2027-06-02T00:00:00Z"), "expires: must be a time"),
        (_with(expires="2027-02-30T00:00:00.000000Z"), "not a time that exists"),
        (_with(nonce="short"), "nonce: must be 16 to 128"),
        (_with(surplus=1), "surplus: is not a member"),
        *((lambda name=name: _without(name), f"{name}: is missing") for name in json.loads(PERMIT.render())),
        (lambda: json.dumps(json.loads(PERMIT.render())).encode(), "canonical"),
    ],
)
def test_what_is_no_permit_though_signed(payload: Callable[[], bytes], why: str) -> None:
    data = Document(payload(), PERMIT_TYPE).sign([KEYS["alice"]]).render()
    with pytest.raises(PermitInvalid, match=why):
        read_permit(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (Document(PERMIT.render(), TRUST_TYPE).render(), EnvelopeInvalid),
        (Document(b"{", PERMIT_TYPE).render(), JsonInvalid),
        (b"{" + bytes(64 << 10), LimitExceeded),
    ],
    ids=["another type", "no JSON", "too large"],
)
def test_what_is_no_signed_permit(data: bytes, error: type[SandsealError]) -> None:
    with pytest.raises(error):
        read_permit(data)
