"""Signature files: Sigstore bundle v0.3 JSON holding one DSSE signature (signing/README.md, "Signature file")."""

import base64
import binascii
import re
from dataclasses import dataclass

from sandseal_signing.errors import EnvelopeInvalid
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.schema import Node, canonical_json, parse_json

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z|[A-Za-z0-9_-]*={0,2}\Z")


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed (DSSE v1.0 protocol, "PAE")."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One DSSE signature: payload bytes as signed, their type, the signature, and whose it claims to be."""

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
        return f"signatures/{self.hint[:16]}.sig"

    def render(self) -> bytes:
        """The signature file's bytes."""
        signature = {"keyid": self.hint, "sig": _encode(self.signature)}
        return canonical_json(
            {
                "mediaType": MEDIA_TYPE,
                "verificationMaterial": {"publicKey": {"hint": self.hint}, "tlogEntries": []},
                "dsseEnvelope": {
                    "payload": _encode(self.payload),
                    "payloadType": self.payload_type,
                    "signatures": [signature],
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
            JsonInvalid: not strict JSON.
            EnvelopeInvalid: another media type, not key mode, not exactly one signature, or bad base64.
        """
        root = Node(parse_json(data, what), what, EnvelopeInvalid)
        if (media := root.text("mediaType")) != MEDIA_TYPE:
            root.fail("mediaType", f"is {media[:80]!r}, only {MEDIA_TYPE!r} is read")
        material, dsse = root.child("verificationMaterial"), root.child("dsseEnvelope")
        root.close()
        public_key = material.child("publicKey")
        hint = public_key.text("hint")
        if not isinstance(material.take("tlogEntries"), list):
            material.fail("tlogEntries", "must be a list")
        public_key.close()
        material.close()
        signatures = dsse.children("signatures")
        if len(signatures) != 1:
            dsse.fail("signatures", f"must hold exactly one signature, not {len(signatures)}")
        keyid = signatures[0].take("keyid", None)
        if keyid not in (None, "", hint):
            signatures[0].fail("keyid", "is not the hint of verificationMaterial")
        envelope = cls(
            payload=_decode(dsse, "payload"),
            payload_type=dsse.text("payloadType"),
            signature=_decode(signatures[0], "sig"),
            hint=hint,
        )
        signatures[0].close()
        dsse.close()
        return envelope


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(node: Node, name: str) -> bytes:
    """Strict base64 in DSSE's two alphabets, never mixed, padding and trailing bits exact."""
    text: str = node.take(name)
    try:
        if not isinstance(text, str) or not _BASE64.match(text):
            raise ValueError("foreign characters")
        standard = text.replace("-", "+").replace("_", "/")
        data = base64.b64decode(standard, validate=True)
        if _encode(data) != standard:
            raise ValueError("not the one encoding of its bytes")
    except (ValueError, binascii.Error) as error:
        node.fail(name, f"is not strict base64 ({error})")
    return data
