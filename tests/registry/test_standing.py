"""What stands behind an accepted bundle, judged again: pure tables of policies and times."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from sandseal_host.registry.standing import Standing, lapsed
from support.bundles import seal, trust

EXPIRES = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def standing(data, alice):
    accepted = data.registry.accept(io.BytesIO(seal([alice], expires="2100-01-01T00:00:00Z")), lambda _: None)
    return Standing.of(data.registry.open(accepted.id), accepted.accepted_at)


def check(standing, policy, now=None) -> str:
    """Why the policy refuses it; empty when it does not."""
    return str(standing.refusal(policy, now or standing.accepted_at) or "")


def test_it_stands_until_it_expires(standing, alice):
    policy = trust({"alice": alice})
    assert check(standing, policy, EXPIRES - timedelta(microseconds=1)) == ""
    assert not standing.expired(EXPIRES - timedelta(microseconds=1))
    assert "expired" in check(standing, policy, EXPIRES)
    assert standing.expired(EXPIRES)


def test_revocations_and_rules_count_and_a_keys_own_end_does_not(standing, alice, bob):
    revoked = '[revoked]\n{} = ["{}"]\n'
    model = standing.signatures  # any policy below is judged over these
    assert model
    for table, digest in (("keys", alice.public.fingerprint), ("bundles", standing.id.hex)):
        assert "revoked" in check(standing, trust({"alice": alice}, tail=revoked.format(table, digest)))
    assert "no rule covers" in check(standing, trust({"alice": alice}, {"models": ["other"]}))
    assert "enrolled" in check(standing, trust({"bob": bob}))
    assert "1 of 2" in check(standing, trust({"alice": alice, "bob": bob}, {"threshold": 2}))
    text_policy = trust({"alice": alice})
    ended = standing.accepted_at + timedelta(seconds=1)
    key = text_policy.keys["alice"]
    object.__setattr__(key, "not_after", ended)
    assert check(standing, text_policy, ended + timedelta(days=1)) == ""
    object.__setattr__(key, "not_after", standing.accepted_at)
    assert "expired" in check(standing, text_policy)


def test_only_those_lapse_that_are_refused(standing, alice, bob):
    assert lapsed([standing], trust({"alice": alice}), standing.accepted_at) == {}
    assert list(lapsed([standing], trust({"bob": bob}), standing.accepted_at)) == [standing.id]
    assert lapsed([], trust({"bob": bob}), standing.accepted_at) == {}


def test_the_registry_says_which_accepted_versions_are_revoked(data, standing, alice):
    (accepted,) = data.registry.list()
    blob = next(name for name in data.files()).rpartition("/")[2]
    for tail in (
        f'keys = ["{alice.public.fingerprint}"]',
        f'bundles = ["{accepted.id}"]',
        f'blobs = ["{blob}"]',
    ):
        policy = trust({"alice": alice}, tail=f"[revoked]\n{tail}\n")
        assert list(data.registry.revoked(policy.revoked)) == [("acme.tiny", 1)]
    assert data.registry.revoked(trust({"alice": alice}).revoked) == {}
