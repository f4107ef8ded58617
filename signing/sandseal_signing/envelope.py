"""Signature files: Sigstore bundle v0.3 JSON holding one DSSE signature (signing/README.md, "Signature file")."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sandseal_signing.digest import is_hex_digest
from sandseal_signing.errors import EnvelopeInvalid, LimitExceeded
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.names import SIGNATURES
from sandseal_signing.schema import Node, canonical_json, parse_json

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_SIGNATURES = 16
MAX_SIGNATURE_BYTES = 32 << 20  # of all signature files of a bundle together
MAX_FILE_BYTES = 8 << 20  # of one: parsed JSON takes many times its size in memory

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z|[A-Za-z0-9_-]*={0,2}\Z")


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed (DSSE v1.0 protocol, "PAE")."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One DSSE signature.

    Args:
        payload: the bytes as signed.
        payload_type: their media type, signed with them.
        signature: raw 64 bytes for Ed25519, DER for ECDSA.
        hint: whose key it claims to be by, as `PublicKey.hint`.
    """

    payload: bytes
    payload_type: str
    signature: bytes
    hint: str

    @classmethod
    def sign(cls, payload: bytes, key: PrivateKey) -> "Envelope":
        """Sign `payload` as an in-toto statement."""
        return cls(payload, PAYLOAD_TYPE, key.sign(pae(PAYLOAD_TYPE, payload)), key.public.hint)

    def verifies(self, key: PublicKey) -> bool:
        """Whether the signature over the raw payload bytes is `key`'s."""
        return key.verifies(self.signature, pae(self.payload_type, self.payload))

    @property
    def file_name(self) -> str:
        """Where the signature file stands in a bundle."""
        return f"{SIGNATURES}/{self.hint[:16]}.sig"

    def render(self) -> bytes:
        """The signature file's bytes."""
        return canonical_json(
            {
                "mediaType": MEDIA_TYPE,
                "verificationMaterial": {"publicKey": {"hint": self.hint}, "tlogEntries": []},
                "dsseEnvelope": {
                    "payload": _encode(self.payload),
                    "payloadType": self.payload_type,
                    "signatures": [{"keyid": self.hint, "sig": _encode(self.signature)}],
                },
            }
        )

    @classmethod
    def parse(cls, data: bytes, what: str) -> "Envelope":
        """Read a signature file; the payload stays opaque bytes.

        Args:
            data: the file.
            what: its name, for errors.

        Raises:
            LimitExceeded: over 8 MiB.
            JsonInvalid: not strict JSON.
            EnvelopeInvalid: another media type, not key mode, not exactly one signature, or bad base64.
        """
        if len(data) > MAX_FILE_BYTES:
            raise LimitExceeded(f"{what} has {len(data)} bytes, over {MAX_FILE_BYTES}", size=len(data))
        root = Node(parse_json(data, what), what, EnvelopeInvalid)
        root.text("mediaType", valid=MEDIA_TYPE.__eq__, rule=repr(MEDIA_TYPE))
        hint = _hint(root.child("verificationMaterial"))
        dsse = root.child("dsseEnvelope")
        root.close()
        signatures = dsse.children("signatures")
        if len(signatures) != 1:
            dsse.fail("signatures", f"must hold exactly one signature, not {len(signatures)}")
        (signature,) = signatures
        if signature.take("keyid", None) not in (None, "", hint):
            signature.fail("keyid", "must be the hint in verificationMaterial, empty, null or absent")
        envelope = cls(read_base64(dsse, "payload"), dsse.text("payloadType"), read_base64(signature, "sig"), hint)
        signature.close()
        dsse.close()
        return envelope


def check_signature_limits(files: Mapping[str, bytes]) -> None:
    """Check how many signature files there are, and their sizes together.

    Raises:
        LimitExceeded: more than 16 files or 32 MiB.
    """
    if len(files) > MAX_SIGNATURES or sum(map(len, files.values())) > MAX_SIGNATURE_BYTES:
        raise LimitExceeded(f"more than {MAX_SIGNATURES} signatures or {MAX_SIGNATURE_BYTES} bytes of them")


def parse_signatures(files: Mapping[str, bytes]) -> tuple[Envelope, ...]:
    """Read a bundle's signature files, all over one payload; none of them is verified yet.

    Args:
        files: content by name.

    Raises:
        LimitExceeded: more than 16 files, 8 MiB in one or 32 MiB in all.
        JsonInvalid, EnvelopeInvalid: one is malformed, misnamed, or signs another payload than the first.
    """
    check_signature_limits(files)
    envelopes: list[Envelope] = []
    for name, data in sorted(files.items()):
        envelope = Envelope.parse(data, name)
        if name != envelope.file_name:
            raise EnvelopeInvalid(f"{name!r} must be called {envelope.file_name!r} after its key hint", where=name)
        if envelopes and envelope.payload != envelopes[0].payload:
            raise EnvelopeInvalid(f"{name!r} signs another statement than {envelopes[0].file_name!r}", where=name)
        envelopes.append(envelope)
    return tuple(envelopes)


def _hint(material: Node) -> str:
    """The key hint of key-mode verification material, which holds nothing else."""
    public_key = material.child("publicKey")
    hint: str = public_key.text("hint", valid=is_hex_digest, rule="64 lower-case hex digits")
    public_key.close()
    if not isinstance(material.take("tlogEntries"), list):
        material.fail("tlogEntries", "must be a list")
    material.close()
    return hint


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read_base64(node: Node, name: str) -> bytes:
    """The bytes of a member in strict base64: one of DSSE's two alphabets, exact padding, trailing bits zero."""
    text = node.text(name, valid=_BASE64.match, rule="base64 in one alphabet")
    standard = text.replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(standard, validate=True)
    except ValueError as error:
        node.fail(name, f"is not base64 ({error})")
    if _encode(data) != standard:
        node.fail(name, "is not the one base64 form of its bytes")
    return data
