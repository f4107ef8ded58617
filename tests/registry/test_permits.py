"""A lower version is let in by a permit: once, for its bundle, from the one accepted last, while its signers count."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sandseal_host.errors import StoreError, VersionStale
from sandseal_host.registry import permits
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.pending import Pending
from sandseal_host.registry.registry import Registry
from sandseal_signing.digest import Digest
from sandseal_signing.document import Document
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import PolicyRefused
from sandseal_signing.logentry import Kind
from sandseal_signing.permit import PERMIT_TYPE, Permit
from support.bundles import members, seal, trust
from support.data_folder import DataFolder
from support.journal import JournalDouble


def good(_) -> None:
    pass


def push(data, archive: bytes):
    return data.registry.accept(io.BytesIO(archive), good)


def bundle_id(archive: bytes) -> Digest:
    (name, signature), *_ = members(archive)
    return Digest.of(Envelope.parse(signature, name).payload)


class Scene:
    """Version 7 is accepted; version 6 is what somebody wants to go back to."""

    def __init__(self, data: DataFolder, alice, bob) -> None:
        self.data, self.keys = data, {"alice": alice, "bob": bob}
        data.policy = trust(self.keys)
        self.seven = push(data, seal([alice], version=7))
        self.six = seal([alice], version=6)
        self.permit = Permit(
            "acme.tiny", self.seven.id, bundle_id(self.six), datetime.now(UTC) + timedelta(hours=1), "n" * 16
        )

    def bring(self, *names: str, permit: Permit | None = None):
        document = Document((permit or self.permit).render(), PERMIT_TYPE)
        signed = document.sign([self.keys[name] for name in names or ("alice",)])
        return self.data.registry.permits.add(signed.render(), "ci")

    def refuse(self, why: str, *names: str, permit: Permit | None = None) -> None:
        with pytest.raises(PolicyRefused, match=why):
            self.bring(*names, permit=permit)
        self.stale()

    def stale(self) -> None:
        with pytest.raises(VersionStale):
            push(self.data, self.six)


@pytest.fixture
def scene(data, alice, bob) -> Scene:
    return Scene(data, alice, bob)


def test_it_lets_its_bundle_in_and_that_is_the_one_that_counts(scene, data, alice):
    scene.stale()
    kept = scene.bring()
    assert (kept.problem, kept.used_at) == (None, None)
    accepted = push(data, scene.six)
    assert isinstance(accepted, Accepted)
    assert data.registry.find("acme.tiny") == accepted
    assert data.registry.find("acme.tiny", 7) == scene.seven
    (reason,) = (reason for reason in accepted.reasons if reason.check == "version")
    assert reason.holds
    assert str(scene.permit.id) in reason.detail
    (kept,) = data.registry.permits.all()
    assert kept.used_at == accepted.accepted_at
    assert "was used" in str(kept.problem)
    assert push(data, seal([alice], version=8)) == data.registry.find("acme.tiny")


def test_versions_go_on_growing_from_the_highest(scene, data, alice):
    scene.bring()
    push(data, scene.six)
    for version in (5, 6, 7):
        with pytest.raises(VersionStale):
            push(data, seal([alice], version=version, release="other"))
    data.registry.delete(scene.seven.id)
    with pytest.raises(VersionStale):
        push(data, seal([alice], version=7, release="other"))


def test_it_is_used_once(scene, data):
    scene.bring()
    data.registry.delete(push(data, scene.six).id)
    scene.refuse("was used")
    data.restart()
    scene.refuse("was used")


def test_it_is_not_used_up_where_it_was_not_needed(scene, data, alice):
    eight = seal([alice], version=8)
    scene.bring(permit=replace(scene.permit, target=bundle_id(eight)))
    push(data, eight)
    (kept,) = data.registry.permits.all()
    assert kept.used_at is None


def test_brought_twice_it_is_one(scene, data):
    assert scene.bring().at == scene.bring().at
    assert len(data.registry.permits.all()) == 1


def test_it_leads_from_the_bundle_that_was_accepted_last(scene, data, alice):
    scene.refuse("is not the one accepted last", permit=replace(scene.permit, source=Digest("0" * 64)))
    scene.refuse("is not the one accepted last", permit=replace(scene.permit, name="acme.other"))
    scene.bring()
    push(data, seal([alice], version=8))
    scene.stale()
    assert "accepted last" in str(data.registry.permits.all()[0].problem)


def test_it_leads_from_a_bundle_that_was_deleted_too(scene, data):
    data.registry.delete(scene.seven.id)
    scene.bring()
    assert push(data, scene.six).version == 6


def test_it_is_for_its_own_name_and_bundle(scene, data, alice):
    push(data, seal([alice], name="acme.other", version=9))
    other = seal([alice], name="acme.other", version=3)
    scene.bring(permit=replace(scene.permit, target=bundle_id(other)))
    with pytest.raises(VersionStale):
        push(data, other)
    scene.stale()


def test_it_expires_even_when_it_was_brought_in_time(scene, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=2)

    past = datetime.now(UTC) - timedelta(seconds=1)
    scene.refuse("expired", permit=replace(scene.permit, expires=past))
    scene.bring()
    monkeypatch.setattr(permits, "datetime", Later)
    scene.stale()


def test_as_many_holders_sign_it_as_sign_a_bundle(scene, data, alice, bob):
    data.policy = trust(scene.keys, {"threshold": 2})
    with pytest.raises(PolicyRefused, match="1 of 2"):
        scene.bring("alice")
    scene.bring("alice", "bob")
    waiting = push(data, scene.six)
    assert isinstance(waiting, Pending)
    assert isinstance(push(data, seal([bob], version=6)), Accepted)


def test_a_signer_who_is_revoked_stands_behind_nothing(scene, data, alice, bob):
    revoked = trust(scene.keys, tail=f'[revoked]\nkeys = ["{bob.public.fingerprint}"]')
    scene.bring("bob")
    data.policy = revoked
    scene.stale()
    assert "0 of 1 holders" in str(data.registry.permits.all()[0].problem)
    scene.refuse("0 of 1 holders", "bob")
    assert scene.bring("alice").problem is None  # the same permit, by somebody else
    assert push(data, scene.six).version == 6


def test_a_signer_who_is_revoked_during_vetting_lets_nothing_in(scene, data, bob):
    scene.bring("bob")

    def meanwhile(_) -> None:
        data.policy = trust(scene.keys, tail=f'[revoked]\nkeys = ["{bob.public.fingerprint}"]')

    with pytest.raises(VersionStale):
        data.registry.accept(io.BytesIO(scene.six), meanwhile)


def test_it_takes_no_other_bundles_place(scene, data, alice):
    data.registry.delete(scene.seven.id)
    other = seal([alice], version=7, release="other")
    scene.bring(permit=replace(scene.permit, target=bundle_id(other)))
    push(data, other)  # the place was free
    third = seal([alice], version=7, release="third")
    scene.bring(permit=replace(scene.permit, source=bundle_id(other), target=bundle_id(third)))
    with pytest.raises(VersionStale, match=f"is bundle {bundle_id(other)}") as refused:
        push(data, third)
    assert "delete that one first" in refused.value.hint


def test_what_is_accepted_needs_none(scene, data, alice):
    eight = push(data, seal([alice], version=8))
    with pytest.raises(PolicyRefused, match="needs no permit"):
        scene.bring(permit=replace(scene.permit, source=eight.id, target=scene.seven.id))


def test_of_two_pushes_at_once_one_uses_it(scene, data, alice):
    """Vetting happens without a lock; what it let through is checked again as the permit is used up."""
    scene.bring()

    def meanwhile(_) -> None:
        data.registry.accept(io.BytesIO(seal([alice], version=8)), good)

    with pytest.raises(VersionStale):
        data.registry.accept(io.BytesIO(scene.six), meanwhile)
    assert data.registry.permits.all()[0].used_at is None


def test_the_acceptance_in_the_log_names_it(scene, data):
    journal = JournalDouble()
    data.registry = Registry(data.store, data.catalog, lambda: data.policy, journal)
    scene.bring()
    push(data, scene.six)
    ((kind, _, subject, detail),) = journal.entries
    assert (kind, subject.version, detail.permit) == (Kind.ACCEPT, 6, scene.permit.id)


def test_a_closed_catalog_says_so(scene, data):
    data.catalog.close()
    with pytest.raises(StoreError):
        scene.bring()
