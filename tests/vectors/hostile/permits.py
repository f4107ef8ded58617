"""Permits that must not count, whoever brings them."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sandseal_signing.digest import Digest
from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.envelope import PAYLOAD_TYPE, Envelope
from sandseal_signing.keys import PrivateKey
from sandseal_signing.permit import PERMIT_TYPE, Permit, check_permit, read_permit
from sandseal_signing.schema import canonical_json
from sandseal_signing.trust import TrustPolicy
from support.bundles import trust
from support.keys import ed25519_key, p256_key
from vectors.hostile.case import ALICE, BOB, EVE, NOW, Case, content, statement_of

KEYS = {"alice": ALICE, "bob": BOB}
TWO = trust(KEYS, {"threshold": 2})
STATEMENT = statement_of(content()).render()
PERMIT = Permit("acme.tiny", Digest("a" * 64), Digest.of(STATEMENT), NOW + timedelta(days=1), "a-nonce-of-16-or-more")


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, data) in _ENVELOPES.items():
        yield f"permit-{name}", _permit(stands_for, data)
    for name, (stands_for, payload) in _PAYLOADS.items():
        yield f"permit-{name}", _permit(stands_for, _signed(payload))
    for name, (stands_for, policy) in _POLICIES.items():
        yield f"permit-{name}", _permit(stands_for, HONEST, policy)
    for name, (stands_for, keys) in _SIGNERS.items():
        yield f"permit-{name}", _permit(stands_for, _signed(PERMIT.render(), keys), _OF_TWO)


def _permit(stands_for: str, data: bytes, policy: TrustPolicy = TWO) -> Case:
    return Case(stands_for, lambda _: check_permit(read_permit(data)[0], policy, NOW))


def _signed(
    payload: bytes, keys: Sequence[PrivateKey] = (ALICE, BOB), kind: str = PERMIT_TYPE, says: str | None = None
) -> bytes:
    """An envelope that these keys signed as of one type; it says that it is of another one when that is given."""
    return replace(Document(payload, kind).sign(keys), payload_type=says or kind).render()


def _edited(change: Callable[[Any], object], data: bytes | None = None) -> bytes:
    """The honest envelope after somebody edited its JSON."""
    document = json.loads(data or HONEST)
    change(document)
    return canonical_json(document)


def _with(**members: Any) -> bytes:
    return canonical_json(json.loads(PERMIT.render()) | members)


def _one_holder() -> TrustPolicy:
    keys = {name: replace(key, holder="a@acme") for name, key in TWO.keys.items()}
    return replace(TWO, keys=keys)


HONEST = _signed(PERMIT.render())
_OTHER = json.loads(_signed(replace(PERMIT, target=Digest("c" * 64)).render()))
_ENVELOPES = {
    "honest": ("what is right is taken", HONEST),
    "of-the-type-of-policies": ("one signature, two meanings", _signed(PERMIT.render(), kind=TRUST_TYPE)),
    "of-the-type-of-bundles": ("one signature, two meanings", _signed(PERMIT.render(), kind=PAYLOAD_TYPE)),
    "signed-as-a-policy": (
        "DSSE: the payload type is signed",
        _signed(PERMIT.render(), kind=TRUST_TYPE, says=PERMIT_TYPE),
    ),
    "that-is-a-statement": ("one signature, two meanings", _signed(STATEMENT)),
    "that-is-a-signature-file": ("one signature, two meanings", Envelope.sign(STATEMENT, ALICE).render()),
    "with-signatures-of-another": ("a signature moved", _edited(lambda d: d.update(signatures=_OTHER["signatures"]))),
    "with-payload-of-another": ("a payload moved", _edited(lambda d: d.update(payload=_OTHER["payload"]))),
    "signed-twice-by-one": ("one key counted twice", _edited(lambda d: d["signatures"].append(d["signatures"][0]))),
    "hint-of-another-key": (
        "a key named that did not sign",
        _edited(lambda d: d["signatures"][1].update(keyid=ed25519_key("eve").public.hint)),
    ),
    "without-signatures": ("nobody stands behind it", _edited(lambda d: d.update(signatures=[]))),
    "with-17-signatures": (
        "a limit of the format",
        _edited(lambda d: d.update(signatures=[{"keyid": str(i), "sig": ""} for i in range(17)])),
    ),
    "another-member": ("closed documents", _edited(lambda d: d.update(approved=True))),
    "base64-with-spare-bits": (
        "two spellings",
        _edited(lambda d: d.update(payload=base64.b64encode(PERMIT.render() + b" ").decode()[:-2] + "B=")),
    ),
    "cut-short": ("truncation", HONEST[:-7]),
    "of-65-kib": ("a limit of the format", HONEST + b" " * (64 << 10)),
}
_PAYLOADS = {
    "member-twice": ("duplicate keys", PERMIT.render()[:-1] + b',"to":"' + b"c" * 64 + b'"}'),
    "payload-member": ("closed documents", _with(version=1)),
    "another-schema": ("formats that are not known", _with(schema="sandseal.permit/2")),
    "not-canonical": ("two spellings", json.dumps(json.loads(PERMIT.render())).encode()),
    "for-a-pattern": ("more than one model", _with(name="acme.*")),
    "to-itself": ("a step that is none", _with(to="a" * 64)),
    "without-nonce": ("replay", _with(nonce="")),
    "without-end": ("a permit for ever", _with(expires=None)),
    "digest-in-upper-case": ("two spellings", _with(to="C" * 64)),
    "expired": ("freeze", replace(PERMIT, expires=NOW).render()),
    "for-another-name": ("who may publish what", replace(PERMIT, name="other.tiny").render()),
}
_POLICIES = {
    "signer-revoked": (
        "revocation",
        trust(KEYS, {"threshold": 2}, tail=f'[revoked]\nkeys = ["{BOB.public.fingerprint}"]'),
    ),
    "two-keys-of-one-holder": ("thresholds count holders", _one_holder()),
    "under-another-rule": (
        "who may publish what",
        trust({**KEYS, "eve": EVE}, {"keys": ["alice", "eve"], "threshold": 2}),
    ),
    "under-no-rule": ("who may publish what", trust(KEYS, {"models": ["acme.other"]})),
    "where-one-suffices": ("what is right is taken", trust(KEYS)),
}
_OF_TWO = trust({**KEYS, "stock": p256_key("stock")}, {"threshold": 2})
_SIGNERS: dict[str, tuple[str, Sequence[PrivateKey]]] = {
    "one-of-two": ("a threshold that is not met", (ALICE,)),
    "one-and-a-stranger": ("a threshold that is not met", (ALICE, EVE)),
    "one-by-p256": ("every kind of key that is enrolled counts", (ALICE, p256_key("stock"))),
}
