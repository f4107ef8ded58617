"""The verdict: may this verified bundle run under this policy, and why; a pure function, its reasons as data.

Upload, load, `sandseal verify` and `sandseal trust explain` all print the same one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from sandseal_signing.digest import Digest
from sandseal_signing.errors import PolicyRefused
from sandseal_signing.manifest import Manifest
from sandseal_signing.statement import Statement
from sandseal_signing.trust import Rule, TrustedKey, TrustPolicy

_MIB = 1 << 20


class State(StrEnum):
    """What a verdict says."""

    ACCEPTED = "accepted"
    PENDING = "pending"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reason:
    """One check of a verdict: its stable name, whether it holds, and the facts in a sentence."""

    check: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a bundle may run, and every reason for and against.

    Args:
        rule: number of the deciding rule in the policy, from 0; None when no rule covers the name.
        holders: the distinct holders whose signatures count.
        threshold: how many holders the rule wants.
        reasons: all checks in order, those that hold included.
    """

    state: State
    rule: int | None
    holders: tuple[str, ...]
    threshold: int
    reasons: tuple[Reason, ...]

    def require(self) -> "Verdict":
        """Return this verdict if it accepts.

        Raises:
            PolicyRefused: with every reason that does not hold.
        """
        if self.state is State.ACCEPTED:
            return self
        against = [reason for reason in self.reasons if not reason.holds]
        raise PolicyRefused(
            f"the trust policy says {self.state}: " + "; ".join(reason.detail for reason in against),
            reasons=[{"check": reason.check, "detail": reason.detail} for reason in against],
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """When and after what a verdict is asked for.

    Args:
        now: the time that expiry is judged at.
        newest: the highest version accepted under this name so far; None at a load, where any accepted one may run.
        accepted_at: when the bundle was accepted, at a load; a key that expired since then still counts.
    """

    now: datetime
    newest: int | None = None
    accepted_at: datetime | None = None

    @classmethod
    def current(cls, newest: int | None = None, accepted_at: datetime | None = None) -> "Moment":
        """The present moment by this machine's clock."""
        return cls(datetime.now(UTC), newest, accepted_at)


def judge(
    bundle_id: Digest,
    statement: Statement,
    signers: Sequence[TrustedKey],
    manifest: Manifest,
    policy: TrustPolicy,
    moment: Moment,
) -> Verdict:
    """Judge a bundle whose statement is verified; touches nothing but its arguments.

    Args:
        signers: the enrolled keys whose signatures verified.
    """
    reasons = list(_general(bundle_id, statement, manifest, policy, moment))
    found = policy.rule_for(manifest.name)
    if found is None:
        reasons.append(Reason("rule", False, f"no rule covers the name {manifest.name!r}"))
        return Verdict(State.REFUSED, None, (), 0, tuple(reasons))
    number, rule = found
    reasons.append(Reason("rule", True, f"rule {number} covers the name {manifest.name!r}"))
    good = [key for key in signers if key.name in rule.keys and _usable(key, policy, moment)]
    holders = tuple(sorted({key.holder for key in good}))
    reasons += _signers(signers, rule, policy, moment)
    reasons += _grants(statement, manifest, rule)
    enough = len(holders) >= rule.threshold
    counted = f"{len(holders)} of {rule.threshold} holders signed ({', '.join(holders) or 'none'})"
    reasons.append(Reason("threshold", enough, counted))
    against = {reason.check for reason in reasons if not reason.holds}
    if against - {"threshold", "signer"} or not holders:
        state = State.REFUSED
    else:
        state = State.ACCEPTED if enough else State.PENDING
    return Verdict(state, number, holders, rule.threshold, tuple(reasons))


def _usable(key: TrustedKey, policy: TrustPolicy, moment: Moment) -> bool:
    expired = key.not_after is not None and key.not_after <= (moment.accepted_at or moment.now)
    return not expired and key.public.fingerprint not in policy.revoked.keys


def _signers(signers: Sequence[TrustedKey], rule: Rule, policy: TrustPolicy, moment: Moment) -> Iterator[Reason]:
    for key in signers:
        if key.public.fingerprint in policy.revoked.keys:
            yield Reason("signer", False, f"key {key.name!r} is revoked")
        elif not _usable(key, policy, moment):
            yield Reason("signer", False, f"key {key.name!r} expired at {key.not_after}")
        elif key.name not in rule.keys:
            yield Reason("signer", False, f"key {key.name!r} of {key.holder} may not sign under this rule")
        else:
            yield Reason("signer", True, f"key {key.name!r} of {key.holder} signed")


def _general(
    bundle_id: Digest, statement: Statement, manifest: Manifest, policy: TrustPolicy, moment: Moment
) -> Iterator[Reason]:
    """What holds or not whichever rule decides: revocation, validity, version."""
    if bundle_id.hex in policy.revoked.bundles:
        yield Reason("revoked", False, f"bundle {bundle_id} is revoked")
    for resource in statement.resources:
        if resource.digest.hex in policy.revoked.blobs:
            yield Reason("revoked", False, f"file {resource.name!r} ({resource.digest}) is revoked")
    if manifest.not_before and moment.now < manifest.not_before:
        yield Reason("validity", False, f"the bundle is valid from {manifest.not_before} only")
    if manifest.expires and moment.now >= manifest.expires:
        yield Reason("validity", False, f"the bundle expired at {manifest.expires}")
    if moment.newest is not None and manifest.version <= moment.newest:
        yield Reason("version", False, f"version {manifest.version} is not above {moment.newest}, accepted before")


def _grants(statement: Statement, manifest: Manifest, rule: Rule) -> Iterator[Reason]:
    """What the bundle asks for against what the rule lets it have."""
    most, total = rule.max_limits, sum(resource.size for resource in statement.resources)
    if total > most.total_mib * _MIB:
        yield Reason("limits", False, f"the files have {total} bytes, the rule allows {most.total_mib} MiB")
    for stage in manifest.stages:
        for what, asked, allowed in (
            ("MiB of memory", stage.limits.memory_mib, most.memory_mib),
            ("ms of time", stage.limits.time_ms, most.time_ms),
        ):
            if asked > allowed:
                yield Reason("limits", False, f"{stage.plugin} asks for {asked} {what}, the rule allows {allowed}")
        if over := set(stage.imports) - set(rule.imports):
            yield Reason("imports", False, f"{stage.plugin} asks for {sorted(over)}, which the rule does not grant")
    if over := set(manifest.model.domains) - set(rule.domains):
        yield Reason("domains", False, f"the model uses domains {sorted(over)}, which the rule does not grant")
