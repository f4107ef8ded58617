"""What the registry remembers of an accepted bundle."""

from dataclasses import dataclass
from datetime import datetime

from sandseal_signing.bundle import Bundle
from sandseal_signing.digest import Digest
from sandseal_signing.logentry import Subject
from sandseal_signing.trust import Revoked
from sandseal_signing.verdict import Reason


@dataclass(frozen=True, slots=True)
class Signer:
    """An enrolled key that signed, as the policy knew it then; `fingerprint` is what a revocation names."""

    key: str
    holder: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted bundle, with the verdict as of its acceptance.

    Args:
        size: bytes of all signed files together.
        signers: the enrolled keys whose signatures verified, then or added later.
        unknown: key hints of the signatures by keys that nobody had enrolled.
        rule: number of the deciding rule in the policy then in force, from 0.
        holders: the distinct holders that counted for it, then or later.
        threshold: how many it wanted.
        reasons: every check of the verdict.
    """

    id: Digest
    name: str
    version: int
    release: str
    accepted_at: datetime
    size: int
    signers: tuple[Signer, ...]
    unknown: tuple[str, ...]
    rule: int | None
    holders: tuple[str, ...]
    threshold: int
    reasons: tuple[Reason, ...]

    @classmethod
    def of(cls, bundle: Bundle, accepted_at: datetime) -> "Accepted":
        """What to remember of a bundle that passed every check."""
        return cls(
            id=bundle.id,
            name=bundle.manifest.name,
            version=bundle.manifest.version,
            release=bundle.manifest.release,
            accepted_at=accepted_at,
            size=sum(resource.size for resource in bundle.statement.resources),
            signers=tuple(Signer(key.name, key.holder, key.public.fingerprint) for key in bundle.signers),
            unknown=bundle.unknown,
            rule=bundle.verdict.rule,
            holders=bundle.verdict.holders,
            threshold=bundle.verdict.threshold,
            reasons=bundle.verdict.reasons,
        )

    @property
    def subject(self) -> Subject:
        """How log entries name it."""
        return Subject(bundle=self.id, name=self.name, version=self.version)

    def why_revoked(self, revoked: Revoked) -> str | None:
        """Why revocations of the bundle or of its signers' keys forbid to run it; None when they do not."""
        if self.id.hex in revoked.bundles:
            return f"bundle {self.id} is revoked"
        holders = {s.holder for s in self.signers if s.fingerprint not in revoked.keys and s.holder in self.holders}
        if len(holders) < self.threshold:
            return f"only {len(holders)} of {self.threshold} holders signed with a key that is not revoked"
        return None
