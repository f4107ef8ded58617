import asyncio
import threading

import pytest

from sandseal_host.errors import Damaged, ModelUnknown, NotReady, Revoked
from sandseal_host.serving.live import LiveModels
from sandseal_host.serving.model import Model
from sandseal_host.serving.states import ModelState
from support.serving import Doubler, Stage, manifest, ready_model, request
from support.waiting import until


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def states(live):
    return [(entry.name, entry.version, str(entry.state)) for entry in live.index()]


def test_get_finds_by_name_and_version():
    async def test():
        live, model = LiveModels(), ready_model(3)
        await live.replace(model)
        assert live.get("acme.double") is live.get("acme.double", 3) is model
        for name, version in (("acme.other", None), ("acme.double", 2)):
            with pytest.raises(ModelUnknown):
                live.get(name, version)

    run(test())


def test_a_model_that_loads_is_known_but_not_ready():
    async def test():
        live, model = LiveModels(), Model(manifest(), "0" * 64)
        live.announce(model)
        with pytest.raises(NotReady, match="pending"):
            live.get("acme.double")
        assert states(live) == [("acme.double", 1, "pending")]
        model.fail("no such operator")
        assert live.index()[0].reason == "no such operator"

    run(test())


def test_a_failed_reload_leaves_the_old_version_serving():
    async def test():
        live, old, new = LiveModels(), ready_model(1), Model(manifest(version=2), "0" * 64)
        await live.replace(old)
        live.announce(new)
        new.fail("bad graph")
        with pytest.raises(NotReady):
            await live.replace(new)
        assert live.get("acme.double") is old
        with pytest.raises(NotReady, match="failed"):
            live.get("acme.double", 2)

    run(test())


def test_replace_serves_the_new_version_before_the_old_one_has_ended():
    async def test():
        gate = threading.Event()
        live, runner = LiveModels(), Doubler(gate=gate)
        old, new = ready_model(1, runner=runner), ready_model(2)
        await live.replace(old)
        answer = asyncio.create_task(live.get("acme.double").infer(request(1)))
        await asyncio.to_thread(runner.started.wait, 60)
        replacing = asyncio.create_task(live.replace(new))
        await until(lambda: old.state == "draining")
        assert live.get("acme.double") is new
        assert states(live) == [("acme.double", 1, "draining"), ("acme.double", 2, "ready")]
        with pytest.raises(NotReady, match="draining"):
            live.get("acme.double", 1)
        await live.get("acme.double").infer(request(2))
        gate.set()
        await replacing
        assert (await answer).outputs[0].data.tolist() == [[2, 2]]
        assert runner.closed
        assert states(live) == [("acme.double", 2, "ready")]

    run(test())


def test_versions_serve_side_by_side_and_the_newest_answers_by_default():
    async def test():
        live, models = LiveModels(), {version: ready_model(version) for version in (1, 2, 3)}
        for version in (2, 3, 1):
            assert live.switch(models[version], beside=(1, 2, 3)) == []
        assert live.ready("acme.double") == [models[3], models[2], models[1]]
        assert live.get("acme.double") is models[3]
        assert live.get("acme.double", 1) is models[1]
        await live.unload("acme.double", 3)
        assert live.get("acme.double") is models[2]
        live.revoke(models[2].bundle_id, "revoked")
        assert live.get("acme.double") is models[1]
        with pytest.raises(Revoked):
            live.get("acme.double", 2)
        await live.settled()
        assert live.ready("acme.double") == [models[1]]

    run(test())


def test_the_version_that_was_accepted_last_is_the_newest():
    async def test():
        live, older, newer = LiveModels(), ready_model(1), ready_model(2)
        older.accepted_at = 5.0  # with a permit, after the newer one
        for model in (older, newer):
            live.switch(model, beside=(1, 2))
        assert live.get("acme.double") is older

    run(test())


def test_one_that_takes_over_takes_the_place_of_those_that_do_not_stay():
    async def test():
        live, models = LiveModels(), {version: ready_model(version) for version in (1, 2, 3)}
        live.switch(models[1])
        live.switch(models[2], beside=(1,))
        with models[1].hold():
            assert live.switch(models[3], beside=(2,)) == [models[1]]
            await asyncio.sleep(0)
            with pytest.raises(NotReady, match="draining"):
                live.get("acme.double", 1)
        await live.ended([models[1]])
        assert states(live) == [("acme.double", 2, "ready"), ("acme.double", 3, "ready")]

    run(test())


def test_no_request_is_lost_over_many_replacements():
    async def test():
        live, answered, stop = LiveModels(), 0, False
        await live.replace(ready_model(1))

        async def client(first):
            nonlocal answered
            number = first
            while not stop:
                model = live.get("acme.double")
                response = await model.infer(request(number))
                assert response.outputs[0].data[0, 0] == 2 * number
                answered, number = answered + 1, number + 1

        clients = [asyncio.create_task(client(10_000 * i)) for i in range(8)]
        for version in range(2, 12):
            before = answered
            await until(lambda before=before: answered > before + 10)
            await live.replace(ready_model(version))
        stop = True
        await asyncio.gather(*clients)
        assert states(live) == [("acme.double", 11, "ready")]

    run(test())


def test_unload_returns_when_the_memory_is_back():
    async def test():
        live, runner = LiveModels(), Doubler()
        await live.replace(ready_model(runner=runner))
        await live.unload("acme.double")
        assert runner.closed
        assert live.index() == ()
        with pytest.raises(ModelUnknown):
            live.get("acme.double")
        with pytest.raises(ModelUnknown):
            await live.unload("acme.double")

    run(test())


def test_all_who_unload_wait_for_the_same_end_although_one_goes_away():
    async def test():
        gate = threading.Event()
        live, runner = LiveModels(), Doubler(gate=gate)
        await live.replace(ready_model(runner=runner))
        answer = asyncio.create_task(live.get("acme.double").infer(request(1)))
        await asyncio.to_thread(runner.started.wait, 60)
        first, second = (asyncio.create_task(live.unload("acme.double")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0.01)
        assert not second.done()
        gate.set()
        await second
        assert runner.closed
        await answer

    run(test())


def test_who_unloads_while_the_memory_is_given_back_waits_for_that():
    class Slow(Doubler):
        def close(self):
            gate.wait(60)
            super().close()

    gate = threading.Event()

    async def test():
        live, runner = LiveModels(), Slow()
        model = ready_model(runner=runner)
        await live.replace(model)
        first = asyncio.create_task(live.unload("acme.double"))
        await until(lambda: model.state == "unloaded")
        second = asyncio.create_task(live.unload("acme.double"))
        await asyncio.sleep(0.01)
        assert not second.done()
        gate.set()
        await asyncio.gather(first, second)
        assert runner.closed

    run(test())


def test_a_model_that_loads_is_not_unloaded():
    async def test():
        live = LiveModels()
        live.announce(Model(manifest(), "0" * 64))
        with pytest.raises(NotReady, match="pending"):
            await live.unload("acme.double")

    run(test())


def test_the_same_version_can_be_loaded_again():
    async def test():
        live, runner = LiveModels(), Doubler()
        await live.replace(ready_model(1, runner=runner))
        again = ready_model(1)
        live.announce(again)
        await live.replace(again)
        assert live.get("acme.double") is again
        assert runner.closed
        assert states(live) == [("acme.double", 1, "ready")]

    run(test())


def test_unload_of_one_version_leaves_the_others():
    async def test():
        live, new = LiveModels(), ready_model(2)
        failed = Model(manifest(version=1), "0" * 64)
        live.announce(failed)
        failed.fail("bad graph")
        await live.replace(new)
        await live.unload("acme.double", 1)
        assert live.get("acme.double") is new
        assert states(live) == [("acme.double", 2, "ready")]

    run(test())


def test_an_older_version_may_take_over_again():
    async def test():
        live = LiveModels()
        await live.replace(ready_model(2))
        await live.replace(ready_model(1))
        assert live.get("acme.double").version == 1
        assert live.get("acme.double").state is ModelState.READY

    run(test())


def test_a_revoked_model_refuses_what_waits_ends_its_batch_and_stays_in_the_index():
    async def test():
        live, gate = LiveModels(), threading.Event()
        runner = Doubler(max_rows=1, gate=gate)
        model = ready_model(1, runner=runner)
        await live.replace(model)
        running = asyncio.create_task(model.infer(request(1)))
        await asyncio.to_thread(runner.started.wait, 60)
        waiting = [asyncio.create_task(model.infer(request(number))) for number in range(2, 6)]
        await asyncio.sleep(0)
        live.revoke(model.bundle_id, "bundle 0 is revoked")
        for refused in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(refused, Revoked)
            assert refused.message == "bundle 0 is revoked"
        with pytest.raises(Revoked):
            live.get("acme.double")
        assert states(live) == [("acme.double", 1, "revoked")]
        gate.set()
        assert (await running).outputs
        await live.unload("acme.double")
        assert states(live) == []

    run(test())


def test_a_revocation_breaks_off_what_waits_for_the_pre_stage():
    class Slow(Stage):
        async def apply(self, *call):
            await asyncio.sleep(60)

    async def test():
        live, model = LiveModels(), ready_model(1, pre=Slow(abs), post=Stage(abs))
        await live.replace(model)
        waiting = asyncio.create_task(model.infer(request(1)))
        gone = asyncio.create_task(model.infer(request(2)))
        await asyncio.sleep(0)
        gone.cancel()
        live.revoke(model.bundle_id, "the bundle expired")
        with pytest.raises(Revoked):
            await waiting
        with pytest.raises(asyncio.CancelledError):  # its caller's wish, not ours
            await gone
        await live.unload("acme.double")

    run(test())


def test_a_model_that_is_withdrawn_for_another_reason_has_failed():
    async def test():
        live, model = LiveModels(), ready_model(1)
        await live.replace(model)
        assert live.withdraw("0" * 64, Damaged("another one's")) == []
        assert live.withdraw(model.bundle_id, Damaged("damaged: its weights", file="w")) == [model]
        assert live.withdraw(model.bundle_id, Damaged("damaged again")) == []
        assert states(live) == [("acme.double", 1, "failed")]
        for ask in (lambda: live.get("acme.double"), lambda: model.infer(request(1))):
            with pytest.raises(Damaged) as refused:
                await ask()
            assert refused.value.message == "damaged: its weights"
            assert refused.value.data == {"file": "w", "model": "acme.double"}
        again = ready_model(1)
        await live.replace(again)
        assert live.get("acme.double") is again

    run(test())
