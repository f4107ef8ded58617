"""Signed documents other than bundles: a DSSE envelope that several holders sign, such as a new trust policy."""

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sandseal_signing.envelope import MAX_FILE_BYTES, MAX_SIGNATURES, pae, read_base64
from sandseal_signing.errors import EnvelopeInvalid, LimitExceeded, PolicyRefused, SignatureInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.schema import Node, canonical_json, parse_json
from sandseal_signing.trust import TrustedKey, TrustPolicy

TRUST_TYPE = "application/vnd.sandseal.trust+toml"


@dataclass(frozen=True, slots=True)
class Document:
    """A DSSE v1.0 envelope in its JSON form.

    Args:
        payload: the bytes as signed.
        payload_type: their media type, signed with them.
        signatures: key hint and raw signature of each, none verified yet.
    """

    payload: bytes
    payload_type: str
    signatures: tuple[tuple[str, bytes], ...] = ()

    def sign(self, keys: Sequence[PrivateKey]) -> "Document":
        """The document with these keys' signatures added, each instead of an earlier one of the same key."""
        message = pae(self.payload_type, self.payload)
        fresh = {key.public.hint: key.sign(message) for key in keys}
        return replace(self, signatures=tuple({**dict(self.signatures), **fresh}.items()))

    def render(self) -> bytes:
        """The envelope's bytes."""
        return canonical_json(
            {
                "payload": base64.b64encode(self.payload).decode(),
                "payloadType": self.payload_type,
                "signatures": [
                    {"keyid": hint, "sig": base64.b64encode(signature).decode()} for hint, signature in self.signatures
                ],
            }
        )

    @classmethod
    def parse(cls, data: bytes, payload_type: str, what: str) -> "Document":
        """Read an envelope; the payload stays opaque bytes.

        Args:
            payload_type: the only one that is taken.
            what: the document's name, for errors.

        Raises:
            LimitExceeded: over 8 MiB, or over 16 signatures.
            JsonInvalid, EnvelopeInvalid: not an envelope of this type, or a key that signs twice.
        """
        if len(data) > MAX_FILE_BYTES:
            raise LimitExceeded(f"{what} has {len(data)} bytes, over {MAX_FILE_BYTES}", size=len(data))
        root = Node(parse_json(data, what), what, EnvelopeInvalid)
        root.text("payloadType", valid=payload_type.__eq__, rule=repr(payload_type))
        payload, nodes = read_base64(root, "payload"), root.children("signatures")
        root.close()
        if len(nodes) > MAX_SIGNATURES:
            raise LimitExceeded(f"{what} has {len(nodes)} signatures, over {MAX_SIGNATURES}")
        signatures: dict[str, bytes] = {}
        for node in nodes:
            hint = node.text("keyid")
            if hint in signatures:
                node.fail("keyid", "signs twice")
            signatures[hint] = read_base64(node, "sig")
            node.close()
        return cls(payload, payload_type, tuple(signatures.items()))

    def approved(self, policy: TrustPolicy, keys: Collection[str], threshold: int, now: datetime) -> tuple[str, ...]:
        """The distinct holders among `keys` who signed it; signatures by others are ignored.

        Args:
            keys: names in the policy; one that is revoked or has ended counts for nothing.
            threshold: how many holders it takes.

        Raises:
            SignatureInvalid: a signature by one of the keys does not verify.
            PolicyRefused: they are too few; says who signed and who may.
        """
        signed = [key for key in map(policy.keys.__getitem__, keys) if self._is_signed_by(key)]
        usable = [key for key in signed if not policy.revokes(key) and not (key.not_after and key.not_after <= now)]
        holders = tuple(sorted({key.holder for key in usable}))
        if len(holders) < threshold:
            others = ", ".join(sorted(policy.holders(keys) - set(holders))) or "nobody"
            count = f"{len(holders)} of {threshold} holders signed ({', '.join(holders) or 'none'})"
            raise PolicyRefused(f"{count}; {threshold - len(holders)} more must sign, out of: {others}")
        return holders

    def _is_signed_by(self, key: TrustedKey) -> bool:
        signature = dict(self.signatures).get(key.public.hint)
        if signature is None:
            return False
        if not key.public.verifies(signature, pae(self.payload_type, self.payload)):
            raise SignatureInvalid(f"the signature by key {key.name!r} of {key.holder} does not verify", key=key.name)
        return True
