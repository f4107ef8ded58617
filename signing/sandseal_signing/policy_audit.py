"""What is wrong, or soon will be, with a trust policy that is valid: `sandseal trust check`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from sandseal_signing.explain import usable
from sandseal_signing.trust import Rule, TrustedKey, TrustPolicy

_SOON = timedelta(days=30)


class Level(StrEnum):
    """How bad a finding is: an error makes part of the policy pointless."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at: where in the policy, and what in a sentence."""

    level: Level
    where: str
    text: str


def audit_policy(policy: TrustPolicy, now: datetime) -> tuple[Finding, ...]:
    """Everything to be found: shadowed rules, thresholds that cannot be met, keys that end, keys for nothing."""
    return (*_shadowed(policy.rules), *_unreachable(policy, now), *_keys(policy, now))


def _shadowed(rules: Sequence[Rule]) -> Iterator[Finding]:
    for number, rule in enumerate(rules):
        hidden = {pattern: by for pattern in rule.models if (by := _covering(rules[:number], pattern)) is not None}
        if not hidden:
            continue
        where = f"rules[{number}]"
        earlier = ", ".join(f"{pattern!r} by rule {by}" for pattern, by in hidden.items())
        if len(hidden) == len(rule.models):
            yield Finding(Level.ERROR, where, f"never decides: it is shadowed ({earlier})")
        else:
            yield Finding(Level.WARNING, where, f"part of it never decides: shadowed are {earlier}")


def _covering(rules: Sequence[Rule], pattern: str) -> int | None:
    """The first rule with a pattern that matches all that `pattern` does.

    Where '*' is the only wildcard, a pattern includes another exactly if it matches that other one read as plain text,
    because only a '*' can take the place of a '*'.
    """
    return next((i for i, rule in enumerate(rules) if any(fnmatchcase(pattern, wide) for wide in rule.models)), None)


def _unreachable(policy: TrustPolicy, now: datetime) -> Iterator[Finding]:
    groups = [(f"rules[{number}]", rule.keys, rule.threshold) for number, rule in enumerate(policy.rules)]
    if policy.root:
        groups.append(("root", policy.root.keys, policy.root.threshold))
    for where, names, threshold in groups:
        keys = [policy.keys[name] for name in names]
        holders = {key.holder for key in keys if usable(policy, key, now)}
        if len(holders) < threshold:
            lost = ", ".join(key.name for key in keys if not usable(policy, key, now))
            left = f"{len(holders)} of {threshold} holders have a key that may sign"
            yield Finding(Level.ERROR, where, f"can never be met: {left}; revoked or ended: {lost}")


def _keys(policy: TrustPolicy, now: datetime) -> Iterator[Finding]:
    used = {name for rule in policy.rules for name in rule.keys} | set(policy.root.keys if policy.root else ())
    for key in policy.keys.values():
        where = f"keys.{key.name}"
        if key.name not in used:
            yield Finding(Level.WARNING, where, "is in no rule: its signatures count for nothing")
        elif policy.revokes(key):
            yield Finding(Level.WARNING, where, "is revoked: take it out when nothing refers to it any more")
        elif key.not_after:
            yield from _ending(key, key.not_after, where, now)


def _ending(key: TrustedKey, ends: datetime, where: str, now: datetime) -> Iterator[Finding]:
    if ends <= now:
        yield Finding(Level.WARNING, where, f"of {key.holder} ended at {ends:%Y-%m-%dT%H:%M:%SZ}")
    elif ends - now < _SOON:
        days = (ends - now).days
        yield Finding(Level.WARNING, where, f"of {key.holder} ends in {days} days, at {ends:%Y-%m-%dT%H:%M:%SZ}")
