"""Signature files: who signed, what exactly, and in how many readings."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from sandseal_signing.curve import L
from sandseal_signing.envelope import PAYLOAD_TYPE, Envelope, pae
from sandseal_signing.keys import PrivateKey
from support.bundles import archive, trust
from support.keys import p256_key
from vectors.hostile.case import ALICE, BOB, EVE, POLICY, Case, content, seal_case, signatures, statement_of

PAYLOAD = statement_of(content()).render()
HONEST = Envelope.sign(PAYLOAD, ALICE)
Change = Callable[[dict[str, Any]], object]


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, text) in _TEXTS.items():
        yield f"envelope-{name}", _case(stands_for, text)
    for name, (stands_for, change) in _CHANGES.items():
        yield f"envelope-{name}", _case(stands_for, _changed(change))
    for name, (stands_for, signature) in _SIGNATURES.items():
        yield f"signature-{name}", _case(stands_for, _with(signature).render())
    stock = p256_key("alice")
    for name, (stands_for, signature) in _ECDSA.items():
        envelope = Envelope(PAYLOAD, PAYLOAD_TYPE, signature, stock.public.hint)
        policy = trust({"stock": stock})
        yield f"ecdsa-{name}", seal_case(stands_for, _archive(envelope.file_name, envelope.render()), policy)
    for name, (stands_for, members) in _FILES.items():
        yield f"signatures-{name}", seal_case(stands_for, archive([*members, *content().items()]))


def _case(stands_for: str, text: bytes) -> Case:
    return seal_case(stands_for, _archive(HONEST.file_name, text), POLICY)


def _archive(name: str, text: bytes) -> bytes:
    return archive([(name, text), *content().items()])


def _with(signature: bytes, hint: str = HONEST.hint) -> Envelope:
    return Envelope(PAYLOAD, PAYLOAD_TYPE, signature, hint)


def _changed(change: Change) -> bytes:
    document = json.loads(HONEST.render())
    change(document)
    return json.dumps(document).encode()


def _dsse(**members: Any) -> Change:
    return lambda document: document["dsseEnvelope"].update(members)


def _sig(text: str) -> Change:
    return _dsse(signatures=[{"sig": text, "keyid": ""}])


def _material(**members: Any) -> Change:
    return lambda document: document.update(verificationMaterial=members)


def _old_pae(key: PrivateKey) -> bytes:
    """What model-signing 0.2 signed, and still accepts."""
    return key.sign(f"DSSEV1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(PAYLOAD)} {PAYLOAD!r}".encode())


def _plus_l(signature: bytes) -> bytes:
    """The same signature with S + L in place of S, which verifiers without the range check take."""
    return signature[:32] + (int.from_bytes(signature[32:], "little") + L).to_bytes(32, "little")


def _file(envelope: Envelope) -> tuple[str, bytes]:
    return envelope.file_name, envelope.render()


def _typed(kind: str, *, signed: str) -> bytes:
    return Envelope(PAYLOAD, kind, ALICE.sign(pae(signed, PAYLOAD)), HONEST.hint).render()


_TEXT = HONEST.render()
_B64 = base64.b64encode(HONEST.signature).decode()
_KEY = {"hint": HONEST.hint}
_TEXTS = {
    "empty": ("not JSON", b""),
    "member-twice": ("duplicate keys: the last wins elsewhere", _TEXT.replace(b'{"dsse', b'{"mediaType":"x","dsse', 1)),
    "nan": ("numbers that JSON has not", _TEXT.replace(b'"tlogEntries":[]', b'"tlogEntries":[NaN]')),
    "large-integer": ("integers that doubles round", _TEXT.replace(b"[]", b"[9007199254740992]")),
    "deep": ("nesting that overflows a parser's stack", _TEXT.replace(b"[]", b"[" * 100_000 + b"]" * 100_000)),
    "surrogate": ("strings that UTF-8 has not", _TEXT.replace(b"[]", b'["\\ud800"]')),
    "byte-order-mark": ("two readings of the beginning", b"\xef\xbb\xbf" + _TEXT),
    "utf-16": ("two readings of all of it", _TEXT.decode().encode("utf-16")),
    "comment": ("lenient parsers", _TEXT + b"//"),
    "two-documents": ("lenient parsers", _TEXT + _TEXT),
    "array": ("another shape", b"[" + _TEXT + b"]"),
    "type-changed": ("DSSE: the type is signed", _typed("text/plain", signed=PAYLOAD_TYPE)),
    "type-of-a-receipt": ("one format's signature used for another", _typed("x/y", signed="x/y")),
}
_CHANGES: dict[str, tuple[str, Change]] = {
    "two-signatures": ("Sigstore: exactly one; elsewhere the first counts", _dsse(signatures=[{"sig": _B64}] * 2)),
    "no-signatures": ("Sigstore: exactly one", _dsse(signatures=[])),
    "old-media-type": ("old formats", lambda d: d.update(mediaType="application/vnd.dev.sigstore.bundle+json")),
    "another-member": ("closed documents", lambda d: d.update(messageSignature={})),
    "certificates": ("CVE-2026-24122: chains judged at the wrong time", _material(x509CertificateChain={})),
    "raw-key": ("a key that the signature brings along", _material(publicKey={**_KEY, "rawBytes": ""}, tlogEntries=[])),
    "no-log-entries": ("CVE-2026-22703: material that is not looked at", _material(publicKey=_KEY)),
    "hint-upper-case": ("a name with two spellings", _material(publicKey={"hint": "F" * 64}, tlogEntries=[])),
    "hint-of-another-key": (
        "a name that the key id must equal",
        _material(publicKey={"hint": "f" * 64}, tlogEntries=[]),
    ),
    "key-id-of-another-key": (
        "Sigstore: hint and key id are the same",
        _dsse(signatures=[{"sig": _B64, "keyid": "x"}]),
    ),
    "key-id-absent": ("an unsigned hint that may be absent", _dsse(signatures=[{"sig": _B64}])),
    "no-padding": ("base64 with two spellings", _sig(_B64.rstrip("="))),
    "mixed-alphabets": ("base64 with two spellings", _sig("+-" + _B64[2:])),
    "line-break": ("base64 with two spellings", _sig(_B64[:40] + "\n" + _B64[40:])),
    "trailing-bits": ("base64 with two spellings", _sig(_B64[:-3] + chr(ord(_B64[-3]) + 1) + "==")),
    "payload-empty": ("a payload that says nothing", _dsse(payload="")),
}
_SIGNATURES = {
    "over-the-payload-alone": ("DSSE: without the type", ALICE.sign(PAYLOAD)),
    "over-the-old-encoding": ("model-signing 0.2's PAE", _old_pae(ALICE)),
    "over-another-statement": ("a signature moved", ALICE.sign(pae(PAYLOAD_TYPE, PAYLOAD + b" "))),
    "by-another-key": ("a hint is no proof", EVE.sign(pae(PAYLOAD_TYPE, PAYLOAD))),
    "s-plus-l": ("malleability, speccheck 6 and 7", _plus_l(HONEST.signature)),
    "of-zeros": ("small order, speccheck 0", bytes(64)),
    "of-the-identity": ("small order: verifies anything under a small-order key", bytes([1, *[0] * 63])),
    "r-not-canonical": ("speccheck 8 and 9", b"\xee" + b"\xff" * 30 + b"\x7f" + HONEST.signature[32:]),
    "of-63-bytes": ("lengths", HONEST.signature[:-1]),
    "of-65-bytes": ("lengths", HONEST.signature + b"\0"),
    "empty": ("lengths", b""),
}
_ECDSA = {
    "of-zeros": ("CVE-2022-21449: r = s = 0", bytes.fromhex("3006020100020100")),
    "not-der": ("raw r and s in place of DER", bytes(range(64))),
    "empty": ("lengths", b""),
    "over-the-old-encoding": ("model-signing 0.2's PAE", _old_pae(p256_key("alice"))),
}
_FILES = {
    "none": ("nothing signed", []),
    "by-a-stranger": ("a key that nobody enrolled", signatures(PAYLOAD, EVE)),
    "of-two-statements": (
        "mix and match",
        sorted([_file(HONEST), *signatures(statement_of(content(version=2)).render(), BOB)]),
    ),
    "one-right-one-wrong": (
        "an enrolled key's signature must verify, whatever else does",
        sorted([_file(HONEST), _file(_with(bytes(64), BOB.public.hint))]),
    ),
    "with-a-stranger": ("strangers are ignored and reported", signatures(PAYLOAD, ALICE, EVE)),
    "misnamed": ("a file that hides behind another's name", [("signatures/0000000000000000.sig", _TEXT)]),
    "in-a-folder": ("a file that hides in a folder", [("signatures/a/b.sig", _TEXT)]),
}
