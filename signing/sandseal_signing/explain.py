"""Why a key's signature would count for a model or not: the policy's reasons as a tree, without any bundle."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sandseal_signing.errors import KeyInvalid
from sandseal_signing.keys import PublicKey
from sandseal_signing.trust import Rule, TrustedKey, TrustPolicy
from sandseal_signing.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Branch:
    """One reason: whether it speaks for the key (None: neither for nor against), and the reasons below it."""

    holds: bool | None
    text: str
    branches: tuple["Branch", ...] = ()

    def as_data(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self)


def explain(policy: TrustPolicy, model: str, key: str, now: datetime) -> Branch:
    """Whether a signature by `key` made now would count for `model`, and every reason.

    Args:
        model: a model's name; it need not exist.
        key: a name in the policy, a fingerprint, a key hint, or a public key in a form that trust files take.
    """
    found = policy.rule_for(model)
    if found is None:
        rules = tuple(_passed_over(policy, len(policy.rules)))
        return Branch(False, f"{key[:80]!r} may not publish {model!r}: no rule covers that name", rules)
    number, rule = found
    trusted = find_key(policy, key)
    reasons = tuple(_key_reasons(policy, rule, trusted, key, now))
    counts = all(reason.holds is not False for reason in reasons)
    decides = Branch(
        counts,
        f"rule {number} decides: {', '.join(rule.models)}",
        (*reasons, _others(policy, rule, trusted, now), *_grants(rule)),
    )
    verb = "counts" if counts else "does not count"
    return Branch(counts, f"a signature by {key[:80]!r} {verb} for {model!r}", (*_passed_over(policy, number), decides))


def explain_verdict(what: str, verdict: Verdict) -> Branch:
    """A verdict's reasons below one sentence."""
    reasons = tuple(Branch(reason.holds, f"{reason.check}: {reason.detail}") for reason in verdict.reasons)
    return Branch(verdict.state == "accepted", f"{what} is {verdict.state}", reasons)


def find_key(policy: TrustPolicy, text: str) -> TrustedKey | None:
    """The enrolled key of this name, fingerprint, hint, or public key."""
    try:
        public = PublicKey.parse(text) if text.startswith(("ed25519:", "-----BEGIN")) else None
    except KeyInvalid:
        public = None
    for key in policy.keys.values():
        if text in (key.name, key.public.fingerprint, key.public.hint) or key.public == public:
            return key
    return None


def _passed_over(policy: TrustPolicy, count: int) -> Iterator[Branch]:
    for number, rule in enumerate(policy.rules[:count]):
        yield Branch(None, f"rule {number} does not cover it: {', '.join(rule.models)}")


def _key_reasons(
    policy: TrustPolicy, rule: Rule, key: TrustedKey | None, asked: str, now: datetime
) -> Iterator[Branch]:
    if key is None:
        yield Branch(False, f"no enrolled key has this name, fingerprint or value: {asked[:80]!r}")
        return
    yield Branch(True, f"key {key.name!r} is enrolled, held by {key.holder} ({key.public.algorithm})")
    named = key.name in rule.keys
    yield Branch(named, f"the rule {'names' if named else 'does not name'} it: {', '.join(rule.keys)}")
    revoked = policy.revokes(key)
    yield Branch(not revoked, f"it is {'' if revoked else 'not '}revoked (fingerprint {key.public.fingerprint})")
    if key.not_after:
        yield Branch(key.not_after > now, f"it may sign until {key.not_after:%Y-%m-%dT%H:%M:%SZ}")


def _others(policy: TrustPolicy, rule: Rule, key: TrustedKey | None, now: datetime) -> Branch:
    """Who else must sign, and whether they can."""
    able = {k.holder for k in map(policy.keys.__getitem__, rule.keys) if usable(policy, k, now)}
    mine = {key.holder} & able if key else set()
    missing = rule.threshold - len(mine)
    others = ", ".join(sorted(able - mine)) or "nobody"
    if missing <= 0:
        return Branch(None, f"the threshold is {rule.threshold}: nobody else must sign")
    reachable = len(able) >= rule.threshold
    return Branch(None if reachable else False, f"the threshold is {rule.threshold}: {missing} more out of {others}")


def usable(policy: TrustPolicy, key: TrustedKey, now: datetime) -> bool:
    """Whether the key's signatures can count now under some rule."""
    return not policy.revokes(key) and not (key.not_after and key.not_after <= now)


def _grants(rule: Rule) -> Iterator[Branch]:
    most = rule.max_limits
    yield Branch(
        None, f"limits: {most.memory_mib} MiB and {most.time_ms} ms a plugin call, {most.total_mib} MiB of files"
    )
    yield Branch(None, f"imports: {', '.join(rule.imports) or 'none'}")
    yield Branch(None, f"operator domains: {', '.join(domain or 'ai.onnx' for domain in rule.domains)}")
