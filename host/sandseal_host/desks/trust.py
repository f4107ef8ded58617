"""The trust policy in force as the edge speaks of it (api.trust_port.Trust)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sandseal_host.api.grant import Grant
from sandseal_host.api.trust_port import PermitEntry, RevocationEntry, Withdrawn
from sandseal_host.errors import RequestInvalid
from sandseal_host.registry.permits import KeptPermit
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.revocations import Revocations, Target
from sandseal_host.registry.standing import Standing
from sandseal_host.registry.trust import Trust
from sandseal_signing.digest import Digest
from sandseal_signing.errors import FormatError
from sandseal_signing.explain import explain, explain_verdict
from sandseal_signing.permit import read_permit
from sandseal_signing.policy_data import policy_data

Enforce = Callable[[], Sequence[tuple[Standing, str]]]
"""Takes what the policy refuses now out of service, and says why; blocks."""


class TrustDesk:
    """Takes what operators ask about trust; called on worker threads.

    Args:
        trust: the policy in force.
        revocations: those kept.
        registry: the bundles.
        enforce: lets no model go on that the policy refuses now, and says which those were.
    """

    def __init__(self, trust: Trust, revocations: Revocations, registry: Registry, enforce: Enforce) -> None:
        self._trust, self._revocations, self._registry, self._enforce = trust, revocations, registry, enforce

    def policy(self) -> Mapping[str, Any]:
        """The policy in force as data."""
        return {**policy_data(self._trust.current()), "problem": self._trust.problem}

    def replace(self, envelope: bytes, operator: Grant) -> Mapping[str, Any]:
        """Put a policy in force that the holders of [root] have signed."""
        self._trust.replace(envelope, operator.name)
        self._enforce()
        return self.policy()

    def explain(self, model: str, key: str) -> Mapping[str, Any]:
        """Whether a signature by the key would count for the model, and why."""
        return explain(self._trust.current(), model, key, datetime.now(UTC)).as_data()

    def explain_bundle(self, bundle_id: str) -> Mapping[str, Any]:
        """What the policy says now of a bundle that is here, and why."""
        return explain_verdict(f"bundle {bundle_id}", self._registry.judge(Digest(bundle_id))).as_data()

    def permit(self, envelope: bytes, publisher: Grant) -> PermitEntry:
        """Keep a downgrade permit until its bundle is pushed."""
        _, permit = read_permit(envelope)
        publisher.need_model(permit.name)
        return _permit_entry(self._registry.permits.add(envelope, publisher.name))

    def permits(self) -> Sequence[PermitEntry]:
        """Every permit, oldest first."""
        return [_permit_entry(kept) for kept in self._registry.permits.all()]

    def revocations(self) -> Sequence[RevocationEntry]:
        """Every revocation, oldest first."""
        return [
            RevocationEntry(one.target, one.digest.hex, one.actor, one.reason, one.at)
            for one in self._revocations.all()
        ]

    def revoke(self, target: Target, digest: str, reason: str, operator: Grant) -> Sequence[Withdrawn]:
        """Revoke, and take what falls under it out of service."""
        try:
            wanted = Digest(digest)
        except FormatError as error:
            raise RequestInvalid(error.message, hint=error.hint) from None
        self._trust.revoke(target, wanted, operator.name, reason)
        return [Withdrawn(standing.id.hex, *standing.key, why) for standing, why in self._enforce()]


def _permit_entry(kept: KeptPermit) -> PermitEntry:
    permit = kept.permit
    return PermitEntry(
        id=permit.id.hex,
        name=permit.name,
        from_bundle=permit.source.hex,
        to_bundle=permit.target.hex,
        expires=permit.expires,
        actor=kept.actor,
        at=kept.at,
        used_at=kept.used_at,
        problem=kept.problem,
    )
