"""What stands behind an accepted bundle, kept so that it can be judged again when the policy or the time changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sandseal_signing.bundle import Bundle, verify_statement
from sandseal_signing.digest import Digest
from sandseal_signing.errors import TrustError
from sandseal_signing.manifest import Manifest
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Moment, Verdict, judge


@dataclass(frozen=True, slots=True)
class Standing:
    """A bundle without its files.

    Args:
        signatures: its signature files by name.
        accepted_at: what the expiry of its signers' keys is judged at.
    """

    id: Digest
    manifest: Manifest
    signatures: Mapping[str, bytes]
    accepted_at: datetime

    @classmethod
    def of(cls, bundle: Bundle, accepted_at: datetime) -> "Standing":
        """The standing of a bundle that was verified for a load."""
        return cls(bundle.id, bundle.manifest, bundle.signatures, accepted_at)

    @property
    def key(self) -> tuple[str, int]:
        """The model's name and version."""
        return self.manifest.name, self.manifest.version

    def verdict(self, policy: TrustPolicy, now: datetime) -> Verdict:
        """What the policy says of it at this time; its signatures are verified again, under the keys enrolled now.

        Raises:
            TrustError: none of them is by an enrolled key.
        """
        verified = verify_statement(self.signatures, policy)
        moment = Moment(now, accepted_at=self.accepted_at)
        return judge(self.id, verified.statement, verified.signers, self.manifest, policy, moment)

    def refusal(self, policy: TrustPolicy, now: datetime) -> TrustError | None:
        """Why it may not run under the policy at this time; None when it may."""
        try:
            self.verdict(policy, now).require()
        except TrustError as error:
            return error
        return None

    def expired(self, now: datetime) -> bool:
        """Whether the bundle's own time is over."""
        return self.manifest.expires is not None and self.manifest.expires <= now


def lapsed(standings: Iterable[Standing], policy: TrustPolicy, now: datetime) -> dict[Digest, TrustError]:
    """Which of the bundles may no longer run, and why; touches nothing but its arguments."""
    refusals = ((standing.id, standing.refusal(policy, now)) for standing in standings)
    return {bundle_id: error for bundle_id, error in refusals if error is not None}
