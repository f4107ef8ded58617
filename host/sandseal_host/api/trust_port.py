"""What the edge needs for /v1/trust and /v1/revocations, as it sees it; app.py connects the registry's side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sandseal_host.api.grant import Grant
from sandseal_host.registry.revocations import Target


@dataclass(frozen=True, slots=True)
class RevocationEntry:
    """One revocation.

    Args:
        target: what was revoked.
        digest: its 64 hex digits.
        actor: who did it.
        reason: why; empty when nobody said.
        at: when.
    """

    target: Target
    digest: str
    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A model that was serving and was refused from that moment on.

    Args:
        bundle: the digest of its bundle's statement.
        name: the model's name.
        version: its version.
        reason: why.
    """

    bundle: str
    name: str
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class PermitEntry:
    """A downgrade permit.

    Args:
        id: the digest of what its holders signed.
        name: the model's name.
        from_bundle: the bundle that it leads away from, 64 hex digits.
        to_bundle: the bundle that it lets in.
        expires: when it ends.
        actor: who brought it.
        at: when it was brought.
        used_at: when it let its bundle in; None while it has not.
        problem: why it would let nothing in now; None when it would.
    """

    id: str
    name: str
    from_bundle: str
    to_bundle: str
    expires: datetime
    actor: str
    at: datetime
    used_at: datetime | None
    problem: str | None


class Trust(Protocol):
    """The trust policy in force. Every method may block."""

    def policy(self) -> Mapping[str, Any]:
        """The policy as JSON data: serial, keys, rules, root, revoked; and why the file on disk is not in force."""
        ...

    def replace(self, envelope: bytes, operator: Grant) -> Mapping[str, Any]:
        """Put another policy in force that the holders of [root] have signed; the answer is as `policy`'s.

        Raises:
            PolicyRefused: there is no [root], too few of its holders signed, or the serial is not higher.
            SigningError: it is not a signed policy.
            StoreError: the operator's file cannot be written.
        """
        ...

    def explain(self, model: str, key: str) -> Mapping[str, Any]:
        """Whether a signature by `key` would count for `model`: a tree of `holds`, `text` and `branches`."""
        ...

    def explain_bundle(self, bundle_id: str) -> Mapping[str, Any]:
        """What the policy says now of a bundle that is accepted or pending, as such a tree.

        Raises:
            BundleUnknown: there is none of this id.
        """
        ...

    def permit(self, envelope: bytes, publisher: Grant) -> PermitEntry:
        """Keep a downgrade permit that the holders of a rule have signed, until its bundle is pushed.

        Raises:
            ModelUnknown: the publisher's token does not cover the model.
            PolicyRefused: it lets nothing in.
            SigningError: it is not a signed permit.
        """
        ...

    def permits(self) -> Sequence[PermitEntry]:
        """Every permit, oldest first."""
        ...

    def revocations(self) -> Sequence[RevocationEntry]:
        """Every revocation, oldest first."""
        ...

    def revoke(self, target: Target, digest: str, reason: str, operator: Grant) -> Sequence[Withdrawn]:
        """Revoke for ever; when it returns, no model that falls under it takes or keeps a waiting request.

        Raises:
            RequestInvalid: not a digest.
            StoreError: it could not be kept, and nothing is revoked.
        """
        ...
