"""The watch: live models judged again at every change, and no load slips through between two."""

import asyncio
import io

import pytest

from sandseal_host.errors import Revoked
from sandseal_host.lifecycle.watch import TrustWatch
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.revocations import Revocations, Target
from sandseal_host.registry.standing import Standing
from sandseal_host.registry.trust import Trust
from sandseal_host.serving.live import LiveModels
from sandseal_signing.digest import Digest
from sandseal_signing.errors import PolicyRefused, TrustError
from sandseal_signing.keys import PrivateKey
from support.bundles import seal, trust, trust_text
from support.data_folder import DataFolder
from support.journal import JournalDouble
from support.serving import ready_model, request
from support.waiting import until


class Scene:
    """An accepted bundle, its model (ready, or still to come), and the watch over it."""

    def __init__(self, folder) -> None:
        self.key = PrivateKey.generate()
        self.file = folder / "trust.toml"
        self.file.write_text(trust_text({"alice": self.key}))
        self.data = DataFolder(folder, trust({"alice": self.key}))
        revocations = Revocations(self.data.catalog, JournalDouble())
        self.trust = Trust(PolicyFile(self.file), revocations, JournalDouble())
        accepted = self.data.registry.accept(io.BytesIO(seal([self.key], "acme.double")), lambda _: None)
        self.standing = Standing.of(self.data.registry.open(accepted.id), accepted.accepted_at)
        self.live = LiveModels()
        self.gone = []
        self.stopped = asyncio.Event()
        self.watch = TrustWatch(self.trust, self.live, self.data.registry.revoked, self.withdrawn)

    def withdrawn(self, standing, why) -> None:
        self.gone.append(standing.key)
        self.stopped.set()

    async def go_live(self):
        model = ready_model(1)
        model.bundle_id = self.standing.id.hex
        await self.watch.admit(self.standing, self.trust.generation)
        await self.live.replace(model)
        return model

    def revoke(self) -> None:
        self.trust.revoke(Target.BUNDLE, self.standing.id, "eve")


@pytest.fixture
def play(tmp_path):
    """Runs a test on a scene of its own."""

    def run(test) -> None:
        async def within() -> None:
            scene = Scene(tmp_path)
            try:
                await asyncio.wait_for(test(scene), 120)
            finally:
                for name in {entry.name for entry in scene.live.index()}:
                    await scene.live.unload(name)
                scene.data.stop()

        asyncio.run(within())

    return run


def test_a_revoked_bundle_stops_and_says_why(play):
    async def test(scene):
        model = await scene.go_live()
        assert await scene.watch.enforce() == ()
        assert (await model.infer(request(1))).outputs
        scene.revoke()
        ((standing, why),) = await scene.watch.enforce()
        assert standing.id == scene.standing.id
        assert "is revoked" in why
        for call in (lambda: model.infer(request(2)), lambda: ask(scene)):
            with pytest.raises(Revoked, match="is revoked"):
                await call()
        assert [(entry.state, entry.reason) for entry in scene.live.index()] == [("revoked", why)]
        await scene.watch.enforce()
        assert scene.gone == [("acme.double", 1)]

    async def ask(scene):
        scene.live.get("acme.double")

    play(test)


def test_whoever_revokes_is_told_what_stopped_when_another_look_was_quicker(play):
    async def test(scene):
        await scene.go_live()
        await scene.watch.enforce()
        scene.revoke()
        looks = await asyncio.gather(*(scene.watch.enforce() for _ in range(3)))
        assert {standing.key for look in looks for standing, _ in look} == {("acme.double", 1)}
        assert [standing.key for standing, _ in await scene.watch.enforce()] == [("acme.double", 1)]
        assert scene.gone == [("acme.double", 1)]
        scene.trust.revoke(Target.KEY, Digest("c" * 64), "eve")
        assert await scene.watch.enforce() == ()

    play(test)


def test_a_load_that_began_before_a_revocation_is_not_admitted(play):
    async def test(scene):
        generation = scene.trust.generation
        scene.revoke()
        with pytest.raises(PolicyRefused, match="is revoked"):
            await scene.watch.admit(scene.standing, generation)

    play(test)


def test_a_revocation_in_the_middle_of_an_admission_is_seen_by_it_or_by_the_next_look(play):
    async def test(scene):
        scene.trust.revoke(Target.KEY, Digest("c" * 64), "eve")  # another generation, of no matter
        admission = asyncio.create_task(scene.watch.admit(scene.standing, 0))
        await asyncio.sleep(0)  # its judging is under way on a thread
        await asyncio.to_thread(scene.revoke)
        scene.live.announce(ready_model(1))
        try:
            await admission
        except TrustError:
            assert await scene.watch.enforce() == ()
        else:
            assert len(await scene.watch.enforce()) == 1

    play(test)


def test_it_notices_a_changed_file_by_itself(play):
    async def test(scene):
        await scene.go_live()
        watching = asyncio.create_task(scene.watch.watch(0.01))
        scene.file.write_text(trust_text({"alice": scene.key}, {"models": ["other"]}, serial=2))
        await scene.stopped.wait()
        watching.cancel()

    play(test)


def test_a_broken_look_is_tried_again(play, caplog):
    async def test(scene):
        await scene.go_live()
        scene.data.catalog.close()
        watching = asyncio.create_task(scene.watch.watch(0.01))
        scene.file.write_text(trust_text({"alice": scene.key}, serial=2, tail=f'[revoked]\nblobs = ["{"d" * 64}"]\n'))
        await until(lambda: caplog.text.count("could not be enforced") > 1)
        assert not watching.done()
        watching.cancel()

    play(test)


def test_what_is_not_live_is_known_to_be_revoked(play):
    async def test(scene):
        await scene.watch.enforce()
        assert scene.watch.refusal("acme.double") is None
        scene.revoke()
        await scene.watch.enforce()
        assert "is revoked" in str(scene.watch.refusal("acme.double"))
        assert "is revoked" in str(scene.watch.refusal("acme.double", 1))
        assert scene.watch.refusal("acme.double", 2) is None

    play(test)
