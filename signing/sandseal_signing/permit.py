"""Downgrade permits: a rule's holders let one bundle in below the newest version of its name (sandseal.permit/1)."""

import re
from dataclasses import dataclass
from datetime import datetime

from sandseal_signing.digest import Digest
from sandseal_signing.document import Document
from sandseal_signing.errors import LimitExceeded, PermitInvalid, PolicyRefused
from sandseal_signing.logentry import read_digest, read_time, render_time
from sandseal_signing.names import MODEL_NAME_RULE, is_model_name
from sandseal_signing.schema import Node, canonical_json, parse_json
from sandseal_signing.trust import TrustPolicy

SCHEMA = "sandseal.permit/1"
PERMIT_TYPE = "application/vnd.sandseal.permit+json"
MAX_BYTES = 64 << 10

_NONCE = re.compile(r"[A-Za-z0-9_-]{16,128}\Z")


@dataclass(frozen=True, slots=True)
class Permit:
    """What the holders sign.

    Args:
        name: of the model.
        source: id of the bundle accepted last under the name.
        target: id of the bundle that may be accepted once, although its version is lower.
        expires: with zone; from then on the permit is worth nothing.
        nonce: tells it from any other permit for the same step; 16 to 128 of A-Z, a-z, 0-9, '-' and '_'.
    """

    name: str
    source: Digest
    target: Digest
    expires: datetime
    nonce: str

    @property
    def id(self) -> Digest:
        """The digest of its bytes, whoever signed them."""
        return Digest.of(self.render())

    def render(self) -> bytes:
        """The bytes that are signed, as RFC 8785 canonical JSON."""
        return canonical_json(
            {
                "schema": SCHEMA,
                "name": self.name,
                "from": self.source.hex,
                "to": self.target.hex,
                "expires": render_time(self.expires),
                "nonce": self.nonce,
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> "Permit":
        """Read a permit; no two byte strings are the same one.

        Raises:
            JsonInvalid: not strict JSON.
            PermitInvalid: not schema sandseal.permit/1, not in canonical form, or from a bundle to itself.
        """
        root = Node(parse_json(data, "permit"), "permit", PermitInvalid)
        root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
        permit = cls(
            name=root.text("name", valid=is_model_name, rule=MODEL_NAME_RULE),
            source=read_digest(root, "from"),
            target=read_digest(root, "to"),
            expires=read_time(root, "expires"),
            nonce=root.text("nonce", valid=_NONCE.match, rule="16 to 128 of A-Z, a-z, 0-9, '-' and '_'"),
        )
        root.close()
        if permit.source == permit.target:
            root.fail("to", "is the bundle that it leads away from")
        if permit.render() != data:
            root.fail("", "is not in canonical form")
        return permit


def read_permit(data: bytes) -> tuple[Document, Permit]:
    """Read a signed permit; none of its signatures is verified yet.

    Raises:
        LimitExceeded, JsonInvalid, EnvelopeInvalid: see `Document.parse`.
        PermitInvalid: see `Permit.parse`.
    """
    if len(data) > MAX_BYTES:
        raise LimitExceeded(f"the permit has {len(data)} bytes, over {MAX_BYTES}", size=len(data))
    document = Document.parse(data, PERMIT_TYPE, "the permit")
    return document, Permit.parse(document.payload)


def check_permit(document: Document, policy: TrustPolicy, now: datetime) -> tuple[str, ...]:
    """The holders who signed a permit, if it counts now; whether it was used, or its bundles fit, is not looked at.

    Raises:
        PermitInvalid, JsonInvalid: see `Permit.parse`.
        PolicyRefused: it has expired, no rule covers the name, or fewer of the rule's holders signed than it wants.
        SignatureInvalid: a signature by one of the rule's keys does not verify.
    """
    permit = Permit.parse(document.payload)
    if permit.expires <= now:
        raise PolicyRefused(f"the permit expired at {render_time(permit.expires)}")
    found = policy.rule_for(permit.name)
    if found is None:
        raise PolicyRefused(f"no rule covers the name {permit.name!r}")
    return document.approved(policy, found[1].keys, found[1].threshold, now)
