"""Bundles that wait for more signatures: kept, not looked into, completed, overtaken, expired, within a quota."""

import io
from datetime import timedelta

import pytest

from sandseal_host.errors import BundleUnknown, ModelInvalid, QuotaExceeded, VersionStale
from sandseal_host.registry import pending as pending_room
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.pending import Pending
from sandseal_host.registry.registry import Registry
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import PolicyRefused, SignatureInvalid, SignerUnknown, StatementInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Kind
from support.bundles import members, seal, trust
from support.journal import JournalDouble


@pytest.fixture
def two(data, alice, bob):
    """The data folder under a policy that wants both."""
    data.policy = trust({"alice": alice, "bob": bob}, {"threshold": 2})
    return data


def good(_) -> None:
    pass


def never(_) -> None:
    pytest.fail("nothing is looked into before enough holders signed")


def push(data, archive: bytes, vet=good, publisher="ci"):
    return data.registry.accept(io.BytesIO(archive), vet, publisher)


def signature(key: PrivateKey, archive: bytes) -> bytes:
    """A detached signature over what the archive's first one is over."""
    name, data = members(archive)[0]
    return Envelope.sign(Envelope.parse(data, name).payload, key).render()


def test_it_waits_and_is_completed_by_the_second_signature(two, alice, bob):
    archive = seal([alice])
    pending = push(two, archive, never)
    assert isinstance(pending, Pending)
    assert pending.detail == "1 of 2 holders signed (alice@acme); 1 more must sign, out of: bob@acme"
    assert two.registry.pending() == (pending,)
    assert two.registry.list() == ()
    assert len(two.files()) == 3
    accepted = two.registry.sign(pending.id, signature(bob, archive), good)
    assert isinstance(accepted, Accepted)
    assert accepted.holders == ("alice@acme", "bob@acme")
    assert two.registry.pending() == ()
    assert two.registry.open(accepted.id).id == pending.id
    assert two.registry.statistics().uploads == {"pending": 1, "signed": 1}


def test_the_whole_file_with_the_other_signature_completes_it_too(two, alice, bob):
    push(two, seal([alice]), never)
    accepted = push(two, seal([bob]))
    assert isinstance(accepted, Accepted)
    assert accepted.holders == ("alice@acme", "bob@acme")
    assert two.registry.pending() == ()


def test_a_signature_that_counts_for_nothing_changes_nothing(two, alice, bob):
    archive, stranger = seal([alice]), PrivateKey.generate()
    pending = push(two, archive, never)
    other = seal([alice], version=2)
    forged = signature(bob, archive).replace(b'"sig":"', b'"sig":"AAAA')
    for data, error in (
        (signature(stranger, archive), SignerUnknown),
        (signature(bob, other), StatementInvalid),
        (forged, SignatureInvalid),
    ):
        with pytest.raises(error):
            two.registry.sign(pending.id, data, never)
    assert two.registry.sign(pending.id, signature(alice, archive), never) == pending
    assert two.registry.pending() == (pending,)
    with pytest.raises(BundleUnknown):
        two.registry.sign(type(pending.id)("0" * 64), signature(bob, archive), never)


def test_policy_and_revocations_are_judged_again_when_it_is_completed(two, alice, bob):
    archive = seal([alice])
    pending = push(two, archive, never)
    for tail in (f'keys = ["{alice.public.fingerprint}"]', f'bundles = ["{pending.id}"]'):
        two.policy = trust({"alice": alice, "bob": bob}, {"threshold": 2}, tail=f"[revoked]\n{tail}\n")
        if "bundles" in tail:
            with pytest.raises(PolicyRefused, match="revoked"):
                two.registry.sign(pending.id, signature(bob, archive), never)
        else:
            still = two.registry.sign(pending.id, signature(bob, archive), never)
            assert still.verdict.holders == ("bob@acme",)
    assert two.registry.list() == ()


def test_of_two_bundles_for_one_version_the_first_completed_wins(two, alice, bob):
    first, second = seal([alice], release="a"), seal([alice], release="b")
    slow, quick = push(two, first, never), push(two, second, never)
    assert two.registry.sign(quick.id, signature(bob, second), good).id == quick.id
    with pytest.raises(VersionStale):
        two.registry.sign(slow.id, signature(bob, first), never)
    assert two.registry.pending() == ()
    assert [accepted.id for accepted in two.registry.list()] == [quick.id]
    assert len(two.files()) == 3  # the loser's own files are gone


def test_what_vetting_refuses_is_no_longer_pending(two, alice, bob):
    archive = seal([alice])
    pending = push(two, archive, never)

    def vet(_) -> None:
        raise ModelInvalid("the graph does not load")

    with pytest.raises(ModelInvalid):
        two.registry.sign(pending.id, signature(bob, archive), vet)
    assert two.registry.pending() == ()
    assert two.files() == {}


def test_its_files_survive_a_restart_and_go_when_it_expires_or_is_deleted(two, alice, bob):
    archive = seal([alice])
    pending = push(two, archive, never)
    two.restart()
    assert two.registry.pending() == (pending,)
    assert len(two.files()) == 3
    two.registry.delete(pending.id)
    assert two.files() == {}
    two.registry = Registry(two.store, two.catalog, lambda: two.policy, patience=timedelta(0))
    gone = push(two, archive, never)
    assert two.registry.pending() == ()
    with pytest.raises(BundleUnknown):
        two.registry.sign(gone.id, signature(bob, archive), never)
    two.registry.expire()
    assert two.files() == {}


def test_each_publisher_has_a_quota_and_what_is_over_it_is_not_even_read(two, alice):
    size = push(two, seal([alice]), never).size
    two.registry.delete(two.registry.pending()[0].id)
    two.registry = Registry(two.store, two.catalog, lambda: two.policy, quota=size + 100)
    push(two, seal([alice]), never)
    push(two, seal([alice]), never)  # the same again costs nothing
    with pytest.raises(QuotaExceeded) as refused:
        push(two, seal([alice], version=2), never)
    assert refused.value.data["limit"] == size + 100
    assert len(two.files()) == 3
    push(two, seal([alice], version=2), never, publisher="another")


def test_a_publisher_has_few_of_them_however_small(two, alice, monkeypatch):
    monkeypatch.setattr(pending_room, "MAX_PENDING", 2)
    for version in (1, 2):
        push(two, seal([alice], version=version), never)
    with pytest.raises(QuotaExceeded, match="'ci' has 2 bundles"):
        push(two, seal([alice], version=3), never)
    push(two, seal([alice], version=2), never)
    push(two, seal([alice], version=3), never, publisher="another")


def test_the_journal_is_told(two, alice, bob):
    journal = JournalDouble()
    two.registry = Registry(two.store, two.catalog, lambda: two.policy, journal)
    archive = seal([alice])
    pending = push(two, archive, never)
    two.registry.sign(pending.id, signature(bob, archive), good)
    with pytest.raises(SignerUnknown):
        push(two, seal([PrivateKey.generate()]))
    assert journal.kinds() == [Kind.PENDING, Kind.ACCEPT, Kind.REJECT]
    assert journal.entries[0][3].holders == ("alice@acme",)


def test_what_waits_shows_what_the_policy_says_now(two, alice, bob):
    archive = seal([alice])
    pending = push(two, archive, never)
    keys, wants_both = {"alice": alice, "bob": bob}, {"threshold": 2}

    def now(policy) -> Pending:
        two.policy = policy
        (shown,) = two.registry.pending()
        assert two.registry.waiting(pending.id) == shown
        assert two.registry.judge(pending.id) == shown.verdict
        return shown

    assert not now(two.policy).refused
    for revoked, why in (
        (f'keys = ["{alice.public.fingerprint}"]', "key 'alice' of alice@acme is revoked"),
        (f'bundles = ["{pending.id}"]', f"bundle {pending.id} is revoked"),
    ):
        shown = now(trust(keys, wants_both, tail=f"[revoked]\n{revoked}\n"))
        assert why in shown.detail
        assert shown.refused
    stranger = now(trust({"bob": bob, "carol": PrivateKey.generate()}, wants_both))
    assert "no signature is by" in stranger.detail
    assert stranger.refused
    assert "no rule covers" in now(trust(keys, {"models": ["other"]})).detail
    assert "again" in now(trust(keys)).detail  # one holder is enough now
    assert now(trust(keys, wants_both)) == pending


def test_what_waits_is_overtaken_by_a_newer_version(two, alice, bob):
    push(two, seal([alice]), never)
    push(two, seal([alice, bob], version=2))
    (shown,) = two.registry.pending()
    assert shown.refused
    assert shown.detail.startswith("version 1 is not above 2")


# --- signatures on what is accepted already ---


def test_an_accepted_bundle_takes_signatures_that_count(data, alice, bob):
    data.policy = trust({"alice": alice, "bob": bob})
    archive = seal([alice])
    accepted = push(data, archive)
    later = data.registry.sign(accepted.id, signature(bob, archive), never)
    assert [signer.key for signer in later.signers] == ["alice", "bob"]
    data.policy = trust({"alice": alice, "bob": bob}, tail=f'[revoked]\nkeys = ["{alice.public.fingerprint}"]\n')
    assert data.registry.open(accepted.id).verdict.holders == ("bob@acme",)
    assert data.registry.revoked(data.policy.revoked) == {}
    assert data.registry.standing(later).refusal(data.policy, later.accepted_at) is None


def test_pushing_it_again_adds_its_new_signatures(data, alice, bob):
    data.policy = trust({"alice": alice, "bob": bob})
    accepted = push(data, seal([alice]))
    again = push(data, seal([alice, bob, PrivateKey.generate()]), never)
    assert [signer.key for signer in again.signers] == ["alice", "bob"]
    assert len(data.catalog.signatures(accepted.id)) == 2


def test_a_key_that_has_ended_signs_nothing_that_was_accepted_before(data, alice, bob):
    policy = trust({"alice": alice, "bob": bob})
    archive = seal([alice])
    accepted = push(data, archive)
    object.__setattr__(policy.keys["bob"], "not_after", accepted.accepted_at + timedelta(microseconds=1))
    data.policy = policy
    with pytest.raises(PolicyRefused, match="expired"):
        data.registry.sign(accepted.id, signature(bob, archive), never)
    data.policy = trust({"alice": alice, "bob": bob}, {"keys": ["alice"]})
    with pytest.raises(PolicyRefused, match="may not sign"):
        data.registry.sign(accepted.id, signature(bob, archive), never)
