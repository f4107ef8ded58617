"""The verdict: may this verified bundle run under this policy, and why; a pure function, its reasons as data.

Upload, load, `sandseal verify` and `sandseal trust explain` all print the same one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

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

    def as_data(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self)

    def require(self) -> "Verdict":
        """Return this verdict if it accepts.

        Raises:
            PolicyRefused: with every reason that does not hold, and the whole verdict as data.
        """
        if self.state is State.ACCEPTED:
            return self
        against = "; ".join(reason.detail for reason in self.reasons if not reason.holds)
        raise PolicyRefused(f"by the trust policy the bundle is {self.state}: {against}", verdict=self.as_data())


@dataclass(frozen=True, slots=True)
class Moment:
    """When and after what a verdict is asked for.

    Args:
        now: the time that expiry is judged at, with zone.
        newest: the highest version accepted under this name so far; None at a load, where any accepted one may run.
        accepted_at: when the bundle was accepted, at a load; a key that expired since then still counts.
        permit: id of a downgrade permit for this bundle, which stands in for a higher version; checked by the caller.
    """

    now: datetime
    newest: int | None = None
    accepted_at: datetime | None = None
    permit: Digest | None = None

    @classmethod
    def current(
        cls, newest: int | None = None, accepted_at: datetime | None = None, permit: Digest | None = None
    ) -> "Moment":
        """The present moment by this machine's clock."""
        return cls(datetime.now(UTC), newest, accepted_at, permit)

    @property
    def acceptance(self) -> datetime:
        """When the bundle was, or would be, accepted; what a key's `not_after` is judged at."""
        return self.accepted_at or self.now


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
        bundle_id: SHA-256 of the statement's bytes.
        signers: the enrolled keys whose signatures over it verified.
        manifest: the bundle.json that the statement lists.
    """
    reasons = [*_revoked(bundle_id, statement, policy), *_in_time(manifest, moment)]
    found = policy.rule_for(manifest.name)
    if found is None:
        reasons.append(Reason("rule", False, f"no rule covers the name {manifest.name!r}"))
        return Verdict(State.REFUSED, None, (), 0, tuple(reasons))
    number, rule = found
    reasons.append(Reason("rule", True, f"rule {number} covers the name {manifest.name!r}"))
    reasons += _granted(statement, manifest, rule)
    refused = any(not reason.holds for reason in reasons)
    signed = [_signer(key, rule, policy, moment) for key in signers]
    holders = sorted({key.holder for key, reason in zip(signers, signed, strict=True) if reason.holds})
    reasons += [*signed, _threshold(holders, rule, policy)]
    if refused or not holders:
        state = State.REFUSED
    else:
        state = State.ACCEPTED if len(holders) >= rule.threshold else State.PENDING
    return Verdict(state, number, tuple(holders), rule.threshold, tuple(reasons))


def _revoked(bundle_id: Digest, statement: Statement, policy: TrustPolicy) -> Iterator[Reason]:
    if bundle_id.hex in policy.revoked.bundles:
        yield Reason("revoked", False, f"bundle {bundle_id} is revoked")
    for resource in statement.resources:
        if resource.digest.hex in policy.revoked.blobs:
            yield Reason("revoked", False, f"file {resource.name!r} ({resource.digest}) is revoked")


def _in_time(manifest: Manifest, moment: Moment) -> Iterator[Reason]:
    if manifest.not_before and moment.now < manifest.not_before:
        yield Reason("validity", False, f"the bundle is valid only from {_utc(manifest.not_before)}")
    if manifest.expires and moment.now >= manifest.expires:
        yield Reason("validity", False, f"the bundle expired at {_utc(manifest.expires)}")
    if moment.newest is not None and manifest.version <= moment.newest:
        below = f"version {manifest.version} is not above {moment.newest}, accepted before"
        permitted = f", which permit {moment.permit} allows" if moment.permit else ""
        yield Reason("version", moment.permit is not None, below + permitted)


def _granted(statement: Statement, manifest: Manifest, rule: Rule) -> Iterator[Reason]:
    """What the bundle asks for beyond what the rule lets it have."""
    most, total = rule.max_limits, sum(resource.size for resource in statement.resources)
    if total > most.total_mib * _MIB:
        yield Reason("limits", False, f"the files have {total} bytes, the rule allows {most.total_mib} MiB")
    for stage in manifest.stages:
        for what, asked, allowed in (
            ("MiB of memory", stage.limits.memory_mib, most.memory_mib),
            ("ms of time", stage.limits.time_ms, most.time_ms),
        ):
            if asked > allowed:
                yield Reason("limits", False, f"{stage.plugin!r} asks for {asked} {what}, the rule allows {allowed}")
        if over := sorted(set(stage.imports) - set(rule.imports)):
            yield Reason("imports", False, f"{stage.plugin!r} asks for {over}, which the rule does not grant")
    if over := sorted(set(manifest.model.domains) - set(rule.domains)):
        yield Reason("domains", False, f"the model uses operator domains {over}, which the rule does not grant")


def _signer(key: TrustedKey, rule: Rule, policy: TrustPolicy, moment: Moment) -> Reason:
    if policy.revokes(key):
        return Reason("signer", False, f"key {key.name!r} of {key.holder} is revoked")
    if key.not_after and key.not_after <= moment.acceptance:
        return Reason("signer", False, f"key {key.name!r} of {key.holder} expired at {_utc(key.not_after)}")
    if key.name not in rule.keys:
        return Reason("signer", False, f"key {key.name!r} of {key.holder} may not sign under this rule")
    return Reason("signer", True, f"key {key.name!r} of {key.holder} signed")


def _threshold(holders: Sequence[str], rule: Rule, policy: TrustPolicy) -> Reason:
    count = f"{len(holders)} of {rule.threshold} holders signed ({', '.join(holders) or 'none'})"
    if len(holders) >= rule.threshold:
        return Reason("threshold", True, count)
    able = policy.holders(name for name in rule.keys if not policy.revokes(policy.keys[name]))
    others = ", ".join(sorted(able - set(holders))) or "nobody whose key is not revoked"
    return Reason("threshold", False, f"{count}; {rule.threshold - len(holders)} more must sign, out of: {others}")


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
