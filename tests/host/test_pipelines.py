"""Pipelines on a whole host: taken in, started again, and what becomes of them when their models come and go."""

import asyncio

import pytest

from sandseal_host.errors import MemberUnavailable, NotReady, PluginInvalid, Revoked
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support.living_host import LivingHost, living_host
from support.pipelines import ECHO, chain, echo, member
from support.serving import request

pytestmark = pytest.mark.slow

NAME, ONE, TWO = "acme.chain", "acme.one", "acme.two"
STEPS = chain(member("first", "input.x", ONE), echo("same", "first.y"), member("second", "same.y", TWO))


@pytest.fixture
def play(tmp_path):
    """Runs acts of a play one after the other, each on a host of its own over the same data folder."""

    def run(*acts, **settings) -> None:
        async def within() -> None:
            for act in acts:
                async with living_host(tmp_path, 'versions = "all"', **settings) as host:
                    await asyncio.wait_for(act(host), 60)

        asyncio.run(within())

    return run


async def set_up(host: LivingHost) -> None:
    """One adds 1, two adds 1 as well."""
    await host.push_pipeline(NAME, 1, STEPS, echo=ECHO)
    await host.push(ONE, 1)
    await host.push(TWO, 1)


def test_a_pipeline_serves_when_its_models_do_and_is_brought_back_with_them(play):
    async def first(host):
        pipeline = await host.push_pipeline(NAME, 1, STEPS, echo=ECHO)
        assert host.ready(NAME) == {1}
        with pytest.raises(MemberUnavailable, match=r"needs model 'acme.one': there is no model"):
            await host.ask(NAME)
        await host.push(ONE, 1)
        assert TWO in host.models.get(NAME, None).impediment().message
        await host.push(TWO, 1)
        assert await host.ask(NAME) == 2
        assert host.models.get(NAME, None).statistics().pipeline.step["same"].answered_total == 1
        assert pipeline.size < 20_000

    async def second(host):
        assert await host.ask(NAME) == 2

    play(first, second)


def test_its_models_are_replaced_unloaded_and_revoked_by_themselves(play):
    async def act(host):
        await set_up(host)
        newer = await host.push(TWO, 5)
        assert await host.ask(NAME) == 6
        await host.revoke(newer)
        assert await host.ask(NAME) == 2  # the version before serves beside it
        await host.models.unload(ONE, None, wait=True)
        with pytest.raises(MemberUnavailable, match=r"step 'first' needs model 'acme.one': there is no model"):
            await host.ask(NAME)
        await host.models.load(ONE, None, wait=True)
        assert await host.ask(NAME) == 2
        for accepted in [each for each in host.host._registry.list() if each.name == TWO and each.version == 1]:
            await host.revoke(accepted)
        with pytest.raises(MemberUnavailable, match=r"step 'second' needs model 'acme.two': .* is revoked"):
            await host.ask(NAME)

    play(act)


def test_a_revoked_model_is_missed_after_a_restart_too(play):
    async def first(host):
        await set_up(host)
        (one,) = [each for each in host.host._registry.list() if each.name == ONE]
        await host.revoke(one)

    async def second(host):
        with pytest.raises(MemberUnavailable, match=r"step 'first' needs model 'acme.one': .* is revoked"):
            await host.ask(NAME)

    play(first, second)


def test_a_pinned_bundle_answers_beside_newer_versions(play):
    async def act(host):
        one = await host.push(ONE, 1)
        await host.push(TWO, 1)
        pinned = chain(member("first", "input.x", ONE, bundle=one.id.hex), member("second", "first.y", TWO))
        await host.push_pipeline(NAME, 1, pinned)
        await host.push(ONE, 3)
        assert (await host.ask(ONE), await host.ask(NAME)) == (3, 2)
        await host.models.unload(ONE, 1, wait=True)
        with pytest.raises(MemberUnavailable, match=f"bundle {one.id.hex} of 'acme.one' is not loaded"):
            await host.ask(NAME)

    play(act)


def test_a_pipeline_is_no_step_of_another(play):
    async def act(host):
        await set_up(host)
        await host.push_pipeline("acme.outer", 1, chain(member("inner", "input.x", NAME)))
        with pytest.raises(MemberUnavailable, match=r"step 'inner' needs model 'acme.chain': it is itself a pipeline"):
            await host.ask("acme.outer")

    play(act)


def test_a_pipeline_that_is_revoked_or_unloaded_leaves_its_models_alone(play):
    async def act(host):
        await set_up(host)
        (pipeline,) = [each for each in host.host._registry.list() if each.name == NAME]
        await host.models.unload(NAME, None, wait=True)
        assert host.ready(NAME) == set()
        await host.models.load(NAME, None, wait=True)
        assert await host.ask(NAME) == 2
        await host.revoke(pipeline)
        with pytest.raises(Revoked):
            await host.ask(NAME)
        assert (await host.ask(ONE), await host.ask(TWO)) == (1, 1)

    play(act)


def test_what_is_under_way_is_answered_while_the_host_stops(play):
    async def act(host):
        await set_up(host)
        model = host.models.get(NAME, None)
        answers = [asyncio.create_task(model.infer(request(i, rows=9))) for i in range(20)]
        await asyncio.sleep(0)
        await host.models.stop()
        assert all([(await answer).outputs[0].shape == (9, 2) for answer in answers])
        with pytest.raises(NotReady):
            await model.infer(request(1))

    play(act)


def test_a_plugin_that_is_none_is_refused_as_it_is_pushed(play):
    async def act(host):
        with pytest.raises(PluginInvalid):
            await host.push_pipeline(NAME, 1, STEPS, echo=b"\0asm nonsense")
        assert not host.states(NAME)

    play(act)


def test_rows_of_one_request_are_batched_with_others(play):
    async def act(host):
        await set_up(host)
        direct = host.models.get(ONE, None)
        wide = asyncio.create_task(host.models.get(NAME, None).infer(request(1_000_000, rows=10)))
        narrow = [asyncio.create_task(direct.infer(request(2_000_000 + i))) for i in range(8)]
        answer = await wide
        assert answer.outputs[0].shape == (10, 2)
        assert isinstance(answer.outputs[0], Tensor)
        assert answer.outputs[0].dtype is DataType.FP32
        for i, each in enumerate(narrow):
            assert (await each).outputs[0].data[0, 0] == 2_000_001 + i
        assert direct.statistics().lane.scheduler.batch_rows_sum == 18

    play(act)
