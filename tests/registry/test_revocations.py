"""Revocations: kept for ever, told to the journal, united with what the trust file revokes."""

import pytest

from sandseal_host.errors import StoreError
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.revocations import Revocations, Target
from sandseal_host.registry.trust import Trust
from sandseal_signing.digest import Digest
from sandseal_signing.document import TRUST_TYPE, Document
from sandseal_signing.errors import EnvelopeInvalid, PolicyInvalid, PolicyRefused
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Kind
from sandseal_signing.trust import Revoked
from support.bundles import trust_text
from support.catalogs import open_catalog
from support.journal import JournalDouble

A, B = Digest("a" * 64), Digest("b" * 64)


@pytest.fixture
def journal():
    return JournalDouble()


@pytest.fixture
def catalog(tmp_path):
    with open_catalog(tmp_path / "catalog.db") as catalog:
        yield catalog


@pytest.fixture
def file(tmp_path, alice):
    (tmp_path / "trust.toml").write_text(trust_text({"alice": alice}))
    return tmp_path / "trust.toml"


def test_what_is_revoked_says_who_why_and_when_and_is_there_after_a_restart(catalog, journal):
    revocations = Revocations(catalog, journal)
    assert revocations.add([(Target.BLOB, A)], "eve", "leaks a secret")
    (one,) = Revocations(catalog, journal).all()
    assert (one.target, one.digest, one.actor, one.reason) == (Target.BLOB, A, "eve", "leaks a secret")
    assert Revocations(catalog, journal).unite(Revoked()).blobs == {A.hex}


def test_the_first_revocation_of_a_thing_stays(catalog, journal):
    revocations = Revocations(catalog, journal)
    assert revocations.add([(Target.KEY, A)], "eve", "first")
    assert not revocations.add([(Target.KEY, A)], "mallory", "second")
    assert revocations.add([(Target.KEY, A), (Target.BUNDLE, A)], "eve", "third")
    assert [(r.target, r.reason) for r in revocations.all()] == [(Target.KEY, "first"), (Target.BUNDLE, "third")]
    assert journal.kinds() == [Kind.REVOKE, Kind.REVOKE]


def test_a_revocation_that_cannot_be_noted_is_not_made(catalog, journal):
    journal.broken = StoreError("no room for the log")
    revocations = Revocations(catalog, journal)
    with pytest.raises(StoreError):
        revocations.add([(Target.KEY, A)], "eve")
    assert revocations.all() == ()
    assert revocations.unite(Revoked()) == Revoked()


def test_they_are_united_with_the_policys_own(catalog, journal):
    revocations = Revocations(catalog, journal)
    revocations.add([(Target.KEY, A), (Target.BUNDLE, B)], "eve")
    mine = Revoked(keys=frozenset({B.hex}))
    assert revocations.unite(mine) == Revoked(frozenset({A.hex, B.hex}), frozenset({B.hex}))


def test_what_a_file_revoked_stays_revoked_when_an_older_one_returns(catalog, journal, file, alice):
    tail = f'[revoked]\nkeys = ["{alice.public.fingerprint}"]\n'
    file.write_text(trust_text({"alice": alice}, serial=3, tail=tail))
    assert Trust(PolicyFile(file), Revocations(catalog, journal), journal).current().serial == 3
    file.write_text(trust_text({"alice": alice}, serial=2))
    policy = Trust(PolicyFile(file), Revocations(catalog, journal), journal).current()
    assert policy.serial == 2
    assert policy.revokes(policy.keys["alice"])


def test_every_change_makes_a_new_generation_and_nothing_else_does(catalog, journal, file, alice, bob):
    trust = Trust(PolicyFile(file), Revocations(catalog, journal), journal)
    first = trust.generation
    assert trust.in_force() is trust.in_force()
    trust.revoke(Target.KEY, A, "eve")
    assert trust.generation > first
    second = trust.generation
    trust.revoke(Target.KEY, A, "eve")
    assert trust.generation == second
    file.write_text(trust_text({"alice": alice, "bob": bob}, serial=2))
    assert trust.generation == second  # looking at it touches no file
    assert trust.in_force().generation > second
    assert trust.current().revoked.keys == {A.hex}
    file.write_text("serial = ")
    assert trust.current().serial == 2
    assert "trust file" in str(trust.problem)
    assert journal.kinds() == [Kind.POLICY, Kind.REVOKE, Kind.POLICY]


# --- a policy that its root replaces ---


@pytest.fixture
def rooted(catalog, journal, file, alice, bob):
    """The trust in a file whose root is alice and bob, and a maker of envelopes over the next one."""
    root = '[root]\nkeys = ["alice", "bob"]\nthreshold = 2\n'
    file.write_text(trust_text({"alice": alice, "bob": bob}, serial=4, tail=root))
    file.chmod(0o640)

    def envelope(*keys, serial=5, text=None, kind=TRUST_TYPE) -> bytes:
        fresh = text or trust_text({"alice": alice}, serial=serial)
        return Document(fresh.encode(), kind).sign(keys).render()

    return Trust(PolicyFile(file), Revocations(catalog, journal), journal), envelope


def test_the_roots_holders_replace_the_policy_and_the_file(rooted, file, journal, alice, bob):
    trust, envelope = rooted
    generation = trust.generation
    assert trust.replace(envelope(alice, bob), "ci").serial == 5
    assert trust.generation > generation
    assert PolicyFile(file).current().serial == 5
    assert file.stat().st_mode & 0o777 == 0o640
    assert journal.entries[-1][:2] == (Kind.POLICY, "alice@acme, bob@acme, brought by ci")
    with pytest.raises(PolicyRefused, match="no \\[root\\]"):
        trust.replace(envelope(alice, bob, serial=6), "ci")


def test_nothing_less_replaces_it(rooted, file, alice, bob):
    trust, envelope = rooted
    before = file.read_text()
    by_file = trust_text({"alice": alice}, serial=9).replace(f'"""{alice.public.inline}"""', '"keys/alice.pub"')
    for data, error in (
        (envelope(alice), PolicyRefused),
        (envelope(alice, PrivateKey.generate()), PolicyRefused),
        (envelope(alice, bob, serial=4), PolicyRefused),
        (envelope(alice, bob, text="serial = "), PolicyInvalid),
        (envelope(alice, bob, text=by_file), PolicyInvalid),
        (envelope(alice, bob, kind="text/plain"), EnvelopeInvalid),
        (b"{}", EnvelopeInvalid),
    ):
        with pytest.raises(error):
            trust.replace(data, "ci")
        assert file.read_text() == before
    assert trust.current().serial == 4


def test_a_revoked_root_key_no_longer_counts(rooted, alice, bob):
    trust, envelope = rooted
    trust.revoke(Target.KEY, Digest(bob.public.fingerprint), "eve")
    with pytest.raises(PolicyRefused, match="1 of 2"):
        trust.replace(envelope(alice, bob), "ci")
