"""Which versions serve: policies, hot replacement, restarts, time limits, and what becomes of loads that fail."""

import asyncio
import sys
from functools import partial

import pytest

from sandseal_host.api.ports import HostState
from sandseal_host.errors import LoadTimeout, ModelInvalid, ModelUnknown, NotReady, Revoked
from sandseal_host.stages import hanging
from support.hostile_models import doubling, endless
from support.living_host import living_host
from support.onnx_models import losing
from support.waiting import until

pytestmark = pytest.mark.slow

NAME = "acme.adding"
ALL = 'versions = "all"'
TWO = "versions = 2"
SOME = "versions = [1, 3]"


@pytest.fixture
def play(tmp_path):
    """Runs acts of a play one after the other, each on a host of its own over the same data folder."""

    def run(*acts) -> None:
        async def within() -> None:
            for act, serving in acts:
                async with living_host(tmp_path, serving) as host:
                    await asyncio.wait_for(act(host), 120)

        asyncio.run(within())

    return run


def pushes(*versions):
    async def act(host):
        for version in versions:
            await host.push(NAME, version)

    return act


def serves(*versions):
    """The act in which these serve, the first of them by default."""

    async def act(host):
        assert host.ready(NAME) == set(versions)
        if versions:
            assert await host.ask(NAME) == versions[0]
        for version in versions:
            assert await host.ask(NAME, version) == version

    return act


def after(*acts):
    async def act(host):
        for one in acts:
            await one(host)

    return act


def load(version=None):
    return lambda host: host.models.load(NAME, version, wait=True)


def unload(version=None):
    return lambda host: host.models.unload(NAME, version, wait=True)


@pytest.mark.parametrize(
    ("serving", "wanted"), [("", (3,)), (TWO, (3, 2)), (ALL, (3, 2, 1)), (SOME, (3, 1))], ids=["1", "2", "all", "some"]
)
def test_a_policy_says_which_versions_serve_and_a_restart_brings_them_back(play, serving, wanted):
    play((after(pushes(1, 2, 3), serves(*wanted)), serving), (serves(*wanted), serving))


def test_a_new_policy_holds_from_the_next_start(play):
    play(
        (pushes(1, 2, 3), ""), (serves(3, 2, 1), ALL), (serves(3, 1), SOME), (serves(3), ""), (serves(3, 2), TWO)
    )  # fmt: skip


def test_an_older_version_is_loaded_by_hand_and_serves_until_the_next_push(play):
    older = after(pushes(1, 2), load(1), serves(1))
    play((older, ""), (after(serves(1), pushes(3), serves(3)), ""))


def test_of_the_latest_two_the_one_that_was_put_into_service_first_goes(play):
    play(
        (after(pushes(1, 2, 3), load(1), serves(3, 1), pushes(4), serves(4, 1), load(1), pushes(5), serves(5, 1)), TWO)
    )


def test_what_was_unloaded_by_hand_stays_so(play):
    play(
        (after(pushes(1, 2, 3), unload(3), serves(2, 1)), ALL),
        (after(serves(2, 1), unload(), serves()), ALL),
        (after(serves(), load(), serves(3, 2, 1)), ALL),
    )


def test_a_push_that_the_policy_leaves_out_waits_to_be_loaded_by_hand(play):
    play((after(pushes(1, 2), serves(1), load(2), serves(2, 1)), SOME), (serves(1), SOME))


def test_none_of_the_versions_that_the_operator_names_is_there(play):
    async def act(host):
        await host.push(NAME, 2)
        with pytest.raises(ModelUnknown, match="operator serves"):
            await host.models.load(NAME, None, wait=True)

    play((act, SOME))


def test_the_newest_that_is_left_answers_when_the_newest_goes(play):
    async def act(host):
        first, second, third = [await host.push(NAME, version) for version in (1, 2, 3)]
        await host.revoke(third)
        assert await host.ask(NAME) == 2
        with pytest.raises(Revoked):
            await host.ask(NAME, 3)
        await host.delete(second)
        assert await host.ask(NAME) == 1
        await host.delete(first)
        with pytest.raises(Revoked):
            await host.ask(NAME)

    play((act, ALL))


def test_a_bad_version_leaves_the_others_serving_and_says_why(play):
    async def act(host):
        await host.push(NAME, 1)
        with pytest.raises(ModelInvalid):
            await host.push(NAME, 2, losing())
        (bad,) = [entry for entry in host.models.index() if entry.version == 2]
        assert bad.state == "failed"
        assert "output 'y' has shape" in bad.reason
        await serves(1)(host)

    play((act, ""), (serves(1), ""))


def test_a_first_run_that_never_ends_is_broken_off_and_the_memory_is_back(play):
    async def act(host):
        await host.push(NAME, 1)
        hurry(host, warm_time_s=0.5)
        with pytest.raises(LoadTimeout, match=r"version 2: warming took longer than 0.5 s") as refusal:
            await host.push(NAME, 2, endless())
        assert refusal.value.data["stage"] == "warming"
        assert host.states(NAME) == {1: "ready", 2: "failed"}
        await ended(host)
        await serves(1)(host)

    play((act, ""))


def test_a_load_that_hangs_is_given_up_and_not_tried_again_before_it_ends(play):
    """Inlining functions cannot be broken off; it takes some seconds here."""

    async def act(host):
        await host.push(NAME, 1)
        hurry(host, load_time_s=1)
        with pytest.raises(LoadTimeout, match=r"version 2: loading took longer than 1 s"):
            await host.push(NAME, 2, doubling(14))
        assert host.models.state is HostState.READY
        assert host.models.statistics().overdue == 1
        with pytest.raises(NotReady, match="has not ended yet"):
            await host.models.load(NAME, 2, wait=True)
        await serves(1)(host)
        await ended(host)

    play((act, ""))


def hurry(host, **limits):
    """Let what is loaded from now on take no longer than this."""
    launcher = host.models._launcher
    launcher._settings = launcher._settings.model_copy(update=limits)


async def ended(host):
    """Wait until what was given up has ended, and see that it holds nothing."""
    await until(lambda: not host.models.statistics().overdue)
    await until(lambda: not hanging())
    ((_, device),) = host.host._loader.ledger.statistics()
    assert (device.models, device.promised_bytes) == (1, 0)


def test_a_version_that_does_not_load_is_not_tried_again_once_it_was_unloaded_by_hand(play):
    async def fails(host):
        await host.push(NAME, 1)
        with pytest.raises(ModelInvalid):
            await host.push(NAME, 2, losing())

    async def failed(versions, host):
        assert host.models.statistics().failed_total == versions

    play(
        (fails, ALL),
        (after(partial(failed, 1), unload(2)), ALL),
        (after(partial(failed, 0), serves(1)), ALL),
    )


def test_loads_of_one_version_coalesce(play):
    async def act(host):
        await host.accept(NAME, 1)
        await asyncio.gather(*(host.models.load(NAME, 1, wait=True) for _ in range(8)))
        assert host.models.statistics().loaded_total == 1

    play((act, ""))


def test_loads_that_coalesce_fail_together(play):
    async def act(host):
        await host.accept(NAME, 1, losing())
        outcomes = await asyncio.gather(
            *(host.models.load(NAME, 1, wait=True) for _ in range(4)), return_exceptions=True
        )
        assert {type(outcome) for outcome in outcomes} == {ModelInvalid}
        assert host.models.statistics().failed_total == 1

    play((act, ""))


def test_a_load_behind_an_unload_is_another_one(play):
    async def act(host):
        await host.push(NAME, 1)
        for change in (host.models.unload, host.models.load, host.models.unload, host.models.load):
            await change(NAME, 1, wait=False)
            await asyncio.sleep(0)
        await host.models.load(NAME, 1, wait=True)
        await serves(1)(host)

    play((act, ""))


def test_a_load_that_nobody_waits_for_any_more_goes_on(play):
    async def act(host):
        await host.accept(NAME, 1)
        waiting = asyncio.create_task(host.models.load(NAME, 1, wait=True))
        await until(lambda: host.models.statistics().under_way)
        waiting.cancel()
        await host.models.load(NAME, 1, wait=True)
        assert host.models.statistics().loaded_total == 1

    play((act, ""))


def test_an_unload_that_nobody_waits_for_any_more_goes_on(play):
    async def act(host):
        await host.push(NAME, 1)
        model = host.models.get(NAME, None)
        with model.hold():
            waiting = asyncio.create_task(host.models.unload(NAME, None, wait=True))
            await until(lambda: model.state == "draining")
            waiting.cancel()
            await asyncio.sleep(0)
        await until(lambda: model.state == "unloaded")

    play((act, ""), (serves(), ""))


def test_a_slow_answer_of_the_old_version_does_not_keep_the_new_one_waiting(play):
    async def act(host):
        await host.push(NAME, 1)
        old = host.models.get(NAME, None)
        with old.hold():
            await host.push(NAME, 2)
            await serves(2)(host)
            await host.push(NAME, 3)
            await until(lambda: host.states(NAME) == {1: "draining", 2: "unloaded", 3: "ready"})
        await until(lambda: old.state == "unloaded")

    play((act, ""))


def test_a_host_that_stops_breaks_loads_off(play):
    async def act(host):
        await host.push(NAME, 1)
        await host.accept(NAME, 2, endless())
        waiting = asyncio.create_task(host.models.load(NAME, 2, wait=True))
        await until(lambda: host.states(NAME).get(2) == "warming")
        host.host.stopping()
        assert await host.ask(NAME) == 1
        with pytest.raises(Exception, match="is stopping"):
            await waiting

    play((act, ""), (serves(1), ""))


def test_a_model_is_ready_while_another_version_loads(play):
    async def act(host):
        await host.push(NAME, 1)
        await host.accept(NAME, 2, endless())
        hurry(host, warm_time_s=2)
        waiting = asyncio.create_task(host.models.load(NAME, 2, wait=True))
        await until(lambda: host.states(NAME).get(2) == "warming")
        assert host.models.state is HostState.READY
        await serves(1)(host)
        with pytest.raises(LoadTimeout):
            await waiting

    play((act, ""))


@pytest.mark.skipif(sys.platform != "linux", reason="graphs are kept on Linux")
def test_a_restart_takes_the_saved_graph_and_never_one_that_was_changed(play, tmp_path):
    folder = tmp_path / "graphs"

    def restarted(hits, rejected):
        async def act(host):
            await serves(1)(host)
            statistics = host.host._graphs.statistics()
            assert (statistics.hits_total, statistics.rejected_total) == (hits, rejected)

        return act

    async def tamper(_):
        (entry,) = folder.iterdir()
        content = entry.read_bytes()
        entry.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    play((pushes(1), ""), (after(restarted(1, 0), tamper), ""), (restarted(0, 1), ""), (restarted(1, 0), ""))
