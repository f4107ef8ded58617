"""The desks: what a publisher's token does not cover is an unknown model to it, and leaves nothing behind."""

import asyncio
import io
from datetime import UTC, datetime, timedelta

import pytest

from sandseal_host.api.grant import Grant
from sandseal_host.desks.bundles import BundleDesk
from sandseal_host.desks.offers import OfferDesk
from sandseal_host.desks.trust import TrustDesk
from sandseal_host.errors import ModelUnknown
from sandseal_host.lifecycle.models import ModelKeeper
from sandseal_host.lifecycle.notes import Notes
from sandseal_host.lifecycle.watch import TrustWatch
from sandseal_host.loader import Loader
from sandseal_host.registry.keyring import Keyring
from sandseal_host.registry.load_view import LoadViews
from sandseal_host.registry.offer_limits import OfferLimits
from sandseal_host.registry.offers import Offers
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.receipts import ReceiptDesk
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.revocations import Revocations, Target
from sandseal_host.registry.rotation import open_log
from sandseal_host.registry.tokens import Scope
from sandseal_host.registry.trust import Trust
from sandseal_host.serving.live import LiveModels
from sandseal_host.serving.rules import ServingRules
from sandseal_host.settings import Settings
from sandseal_signing.digest import Digest
from sandseal_signing.document import Document
from sandseal_signing.errors import DigestMismatch, SealInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Role
from sandseal_signing.permit import PERMIT_TYPE, Permit
from support.bundles import archive, members, seal, trust, trust_text
from support.data_folder import DataFolder

ALICE, BOB = PrivateKey.generate(), PrivateKey.generate()
BOTH = {"alice": ALICE, "bob": BOB}
TWO = {"threshold": 2}


def token(models: str) -> Grant:
    return Grant("carol", frozenset({Scope.PUBLISH}), models=models, id=f"id-{models}")


def vet(_) -> None:
    pass


class Scene:
    """A data folder, and the desks in front of it."""

    def __init__(self, folder, *rules) -> None:
        file = folder / "trust.toml"
        file.write_text(trust_text(BOTH, *rules))
        self.data = data = DataFolder(folder, trust(BOTH, *rules))
        keyring, live, settings = Keyring(folder / "keys"), LiveModels(), Settings(data=folder)
        log = open_log(data.catalog, keyring)
        revocations, notes = Revocations(data.catalog, log), Notes(log)
        policy = Trust(PolicyFile(file), revocations, log)
        data.registry = Registry(data.store, data.catalog, policy.current)
        self.loader = Loader(settings)
        self.keeper = keeper = ModelKeeper(
            registry=data.registry,
            loader=self.loader,
            live=live,
            watch=TrustWatch(policy, live, data.registry.revoked, notes.withdrawn),
            receipts=ReceiptDesk(log, keyring.key(Role.RECEIPT)),
            notes=notes,
            rules=ServingRules(settings),
            settings=settings,
        )
        self.trust = TrustDesk(policy, revocations, data.registry, keeper.enforce)
        views = LoadViews(data.store, folder / "loads", bytes_limit=1 << 20)
        self.bundles = BundleDesk(data.registry, keeper, vet, log, views)
        self.folder = folder / "blobs" / "offers"
        offers = Offers(data.registry, data.store, policy.current, self.folder, OfferLimits(reserve=0))
        self.offers = OfferDesk(offers, vet, self.bundles.taken_in, timedelta(hours=1))

    def push(self, sealed: bytes, models: str):
        return self.bundles.accept(io.BytesIO(sealed), token(models))


@pytest.fixture
def play(tmp_path):
    """Runs a test on a worker thread, on a scene of its own under these rules."""

    def run(test, *rules) -> None:
        async def within() -> None:
            scene = Scene(tmp_path, *rules)
            try:
                await asyncio.wait_for(asyncio.to_thread(test, scene), 120)
            finally:
                scene.loader.close()
                scene.data.stop()

        asyncio.run(within())

    return run


@pytest.mark.parametrize("rules", [(), (TWO,)], ids=["that would be accepted", "that would wait"])
def test_a_push_that_the_token_does_not_cover_stores_nothing(play, rules):
    def test(scene):
        with pytest.raises(ModelUnknown, match=r"acme\.x"):
            scene.push(seal([ALICE], "acme.x"), "other.*")
        assert scene.bundles.entries() == []
        assert scene.data.files() == {}

    play(test, *rules)


def test_a_hidden_bundle_pushed_again_gets_no_signature(play):
    def test(scene):
        scene.data.registry.accept(io.BytesIO(seal([ALICE], "acme.x")), vet)
        with pytest.raises(ModelUnknown):
            scene.push(seal([ALICE, BOB], "acme.x"), "other.*")
        (entry,) = scene.bundles.entries()
        assert [signer.key for signer in entry.signers] == ["alice"]
        again = scene.data.registry.accept(io.BytesIO(seal([ALICE, BOB], "acme.x")), vet)
        assert len(again.signers) == 2

    play(test)


def test_a_hidden_bundle_is_not_signed(play):
    def test(scene):
        waiting = scene.push(seal([ALICE], "acme.x"), "acme.*")
        assert waiting.state == "pending"
        ((_, signature),) = [(name, data) for name, data in members(seal([BOB], "acme.x")) if "signatures" in name]
        with pytest.raises(ModelUnknown):
            scene.bundles.sign(waiting.id, signature, token("other.*"))
        assert scene.bundles.entries() == [waiting]

    play(test, TWO)


def test_a_hidden_bundle_cannot_be_offered(play):
    def test(scene):
        sealed = seal([ALICE], "acme.x")
        head = archive([pair for pair in members(sealed) if not pair[0].endswith((".onnx", ".md"))])[:-1024]
        with pytest.raises(ModelUnknown):
            scene.offers.offer(head, token("other.*"))
        assert list(scene.folder.iterdir()) == []
        assert scene.offers.offer(head, token("acme.*")).missing

    play(test)


def test_what_is_wrong_with_a_push_is_still_said_and_counted(play):
    def test(scene):
        with pytest.raises(SealInvalid):
            scene.push(b"no archive" * 100, "*")
        pairs = [
            (name, b"{" + data[1:-1] + b" " if name == "bundle.json" else data) for name, data in members(seal([ALICE]))
        ]
        with pytest.raises(DigestMismatch):
            scene.push(archive(pairs), "other.*")  # the name counts only once it is known to be signed
        counts = scene.data.registry.statistics().uploads
        assert counts == {SealInvalid.code: 1, DigestMismatch.code: 1}

    play(test)


def test_a_bundle_is_found_by_its_id(play):
    def test(scene):
        waiting = scene.push(seal([ALICE], "acme.x"), "acme.*")
        assert scene.bundles.entry(waiting.id) == waiting
        scene.bundles.remove(waiting.id)
        assert scene.bundles.entries() == []

    play(test, TWO)


@pytest.mark.parametrize("target", [Target.KEY, Target.BUNDLE])
def test_what_waits_for_nothing_any_more_shows_it_at_once(play, target):
    def test(scene):
        waiting = scene.push(seal([ALICE], "acme.x"), "acme.*")
        assert [(entry.state, entry.reason) for entry in scene.keeper.index()] == [("pending", waiting.detail)]
        digest = {Target.KEY: ALICE.public.fingerprint, Target.BUNDLE: waiting.id}[target]
        scene.trust.revoke(target, digest, "stolen", token("*"))
        (entry,), (shown,) = scene.bundles.entries(), scene.keeper.index()
        assert entry == scene.bundles.entry(waiting.id)
        assert (entry.state, shown.state) == ("revoked", "revoked")
        assert entry.detail == shown.reason
        assert "is revoked" in entry.detail
        assert scene.trust.explain_bundle(waiting.id)["holds"] is False

    play(test, TWO)


def test_an_accepted_bundle_that_rests_shows_its_revocation(play):
    def test(scene):
        accepted = scene.data.registry.accept(io.BytesIO(seal([ALICE], "acme.x")), vet)
        assert scene.bundles.entry(accepted.id.hex).state == "accepted"
        scene.trust.revoke(Target.BUNDLE, accepted.id.hex, "stolen", token("*"))
        entry = scene.bundles.entry(accepted.id.hex)
        assert entry.state == "revoked"
        assert "is revoked" in entry.detail

    play(test)


def test_a_hidden_model_gets_no_permit(play):
    def test(scene):
        last = scene.data.registry.accept(io.BytesIO(seal([ALICE], "acme.x", 7)), vet)
        permit = Permit("acme.x", last.id, Digest("b" * 64), datetime.now(UTC) + timedelta(1), "n" * 16)
        envelope = Document(permit.render(), PERMIT_TYPE).sign([ALICE]).render()
        with pytest.raises(ModelUnknown):
            scene.trust.permit(envelope, token("other.*"))
        assert scene.trust.permits() == []
        assert [scene.trust.permit(envelope, token("acme.*"))] == scene.trust.permits()

    play(test)
