"""The trust file: read again when it changes, all or nothing, its serial never down."""

import logging

import pytest

from sandseal_host.registry.policy import PolicyFile
from sandseal_signing.errors import PolicyInvalid
from support.bundles import trust_text


@pytest.fixture
def path(tmp_path, alice):
    path = tmp_path / "trust.toml"
    path.write_text(trust_text({"alice": alice}))
    return path


def test_an_unchanged_file_is_not_read_again(path):
    policy = PolicyFile(path)
    assert policy.current() is policy.current()
    assert policy.problem is None


def test_a_change_comes_into_force(path, alice, bob):
    policy = PolicyFile(path)
    path.write_text(trust_text({"alice": alice, "bob": bob}, serial=2))
    assert sorted(policy.current().keys) == ["alice", "bob"]
    assert policy.current().serial == 2


def test_a_file_renamed_into_place_comes_into_force(path, tmp_path, alice, bob):
    policy = PolicyFile(path)
    fresh = tmp_path / "fresh"
    fresh.write_text(trust_text({"other": bob}))
    fresh.rename(path)
    assert sorted(policy.current().keys) == ["other"]


def test_a_change_of_a_key_file_comes_into_force(path, tmp_path, alice, bob):
    key = tmp_path / "keys" / "alice.pub"
    key.parent.mkdir()
    key.write_text(alice.public.pem)
    path.write_text(trust_text({"alice": alice}).replace(f'"""{alice.public.inline}"""', '"keys/alice.pub"'))
    policy = PolicyFile(path)
    assert policy.current().keys["alice"].public == alice.public
    key.write_text(bob.public.pem)
    assert policy.current().keys["alice"].public == bob.public
    key.unlink()
    assert policy.current().keys["alice"].public == bob.public
    assert "alice.pub" in (policy.problem or "")
    key.write_text(alice.public.pem)
    assert policy.current().keys["alice"].public == alice.public
    assert policy.problem is None


@pytest.mark.parametrize("damage", ["", "schema = ", "\x00", "serial = 2\n"])
def test_an_invalid_change_keeps_the_policy_and_is_reported_once(path, alice, damage, caplog):
    policy = PolicyFile(path)
    before = policy.current()
    path.write_text(damage)
    with caplog.at_level(logging.WARNING):
        assert policy.current() is before
        assert policy.current() is before
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(policy.problem) in caplog.text
    path.write_text(trust_text({"alice": alice}, serial=2))
    assert policy.current().serial == 2
    assert policy.problem is None


def test_a_file_that_goes_away_or_is_not_text_keeps_the_policy(path):
    policy = PolicyFile(path)
    before = policy.current()
    path.unlink()
    assert policy.current() is before
    assert "cannot read" in str(policy.problem)
    path.write_bytes(b"\xff\xfe")
    assert policy.current() is before
    assert "not UTF-8" in str(policy.problem)


def test_an_older_serial_is_refused_and_the_same_one_taken(path, alice, bob):
    path.write_text(trust_text({"alice": alice}, serial=5))
    policy = PolicyFile(path)
    path.write_text(trust_text({"alice": alice, "bob": bob}, serial=4))
    assert policy.current().serial == 5
    assert "serial 4 is below 5" in str(policy.problem)
    path.write_text(trust_text({"bob": bob}, serial=5))
    assert sorted(policy.current().keys) == ["bob"]
    assert policy.problem is None


@pytest.mark.parametrize("content", [None, b"", b"\xff", b'schema = "sandseal.trust/1"'])
def test_there_is_no_host_without_a_valid_policy(tmp_path, content):
    path = tmp_path / "trust.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PolicyInvalid):
        PolicyFile(path)
