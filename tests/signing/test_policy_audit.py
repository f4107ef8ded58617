"""`trust check`: what is pointless in a policy, or soon will be."""

from datetime import UTC, datetime, timedelta

import pytest

from sandseal_signing.keys import PrivateKey
from sandseal_signing.policy_audit import audit_policy
from support.bundles import trust

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEYS = {name: PrivateKey.generate() for name in ("alice", "bob")}


def found(policy) -> list[str]:
    return [f"{finding.level} {finding.where}: {finding.text}" for finding in audit_policy(policy, NOW)]


def rules(*models: list[str]):
    return trust(KEYS, *({"models": patterns} for patterns in models))


def test_a_good_policy_has_nothing_to_find():
    assert found(rules(["acme.*", "b"], ["*"])) == []


@pytest.mark.parametrize(
    ("wide", "narrow", "shadowed"),
    [
        ("*", "acme.*", True), ("acme.*", "acme.x", True), ("acme.*", "acme.x*", True), ("a*c", "abc", True),
        ("a*c", "a*b*c", True), ("a*", "*", False), ("acme.*", "acme*", False), ("a*c", "a*d", False),
        ("*a", "*", False), ("a", "a", True), ("a", "b", False), ("**", "*", True), ("*", "**", True),
    ],
)  # fmt: skip
def test_a_rule_that_never_decides_is_an_error(wide, narrow, shadowed):
    errors = found(rules([wide], [narrow]))
    assert errors == ([f"error rules[1]: never decides: it is shadowed ({narrow!r} by rule 0)"] if shadowed else [])


def test_a_rule_that_decides_in_part_is_a_warning():
    (warning,) = found(rules(["acme.*"], ["acme.x", "other"]))
    assert warning == "warning rules[1]: part of it never decides: shadowed are 'acme.x' by rule 0"


def test_a_threshold_that_revoked_keys_make_unreachable():
    tail = f'[revoked]\nkeys = ["{KEYS["alice"].public.fingerprint}"]\n'
    root = '[root]\nkeys = ["alice"]\nthreshold = 1\n'
    errors = found(trust(KEYS, {"threshold": 2}, tail=root + tail))
    assert errors[0] == (
        "error rules[0]: can never be met: 1 of 2 holders have a key that may sign; revoked or ended: alice"
    )
    assert errors[1].startswith("error root: can never be met: 0 of 1")
    assert errors[2].startswith("warning keys.alice: is revoked")


def test_keys_that_end_and_keys_for_nothing():
    policy = trust(KEYS, {"keys": ["alice"]})
    object.__setattr__(policy.keys["alice"], "not_after", NOW + timedelta(days=29, hours=1))
    assert found(policy) == [
        "warning keys.alice: of alice@acme ends in 29 days, at 2030-01-30T01:00:00Z",
        "warning keys.bob: is in no rule: its signatures count for nothing",
    ]
    object.__setattr__(policy.keys["alice"], "not_after", NOW + timedelta(days=31))
    assert len(found(policy)) == 1
    object.__setattr__(policy.keys["alice"], "not_after", NOW)
    assert "0 of 1" in found(policy)[0]
    assert "ended at" in found(policy)[1]
