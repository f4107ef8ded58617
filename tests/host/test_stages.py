"""Each stage of a load within its time; what is given up is freed when it ends."""

import asyncio
import threading
import time

import pytest

from sandseal_host.errors import LoadTimeout
from sandseal_host.settings import Settings
from sandseal_host.stages import LoadStage, LoadStages, apart, hanging
from support.waiting import until


@pytest.fixture
def play():
    """Runs a test with stages that may take a minute, but for these, and with what was freed late."""

    def run(test, **limits: float) -> None:
        async def within() -> None:
            freed = asyncio.Queue()
            loop = asyncio.get_running_loop()
            stages = LoadStages(Settings(**{"verify_time_s": 60, "load_time_s": 60, "warm_time_s": 60} | limits))
            late = lambda work: loop.call_soon_threadsafe(freed.put_nowait, work)  # noqa: E731
            await asyncio.wait_for(test(stages, late, freed), 60)

        asyncio.run(within())

    return run


def test_work_in_time_is_awaited(play):
    async def test(stages, late, freed):
        assert await stages.within(apart(lambda: threading.current_thread().daemon), late) is True
        with pytest.raises(ZeroDivisionError):
            await stages.within(apart(lambda: 1 / 0), late)
        assert stages.overdue is None
        assert freed.empty()

    play(test)


def test_every_stage_has_its_own_time(play):
    async def test(stages, late, freed):
        ends = []

        def work():
            for stage in (LoadStage.LOADING, LoadStage.WARMING, LoadStage.LOADING):
                entered = time.monotonic()
                stages.enter(stage)
                asyncio.run_coroutine_threadsafe(note(), loop).result()
                assert ends[-1] >= entered + 60
            return "done"

        async def note():
            ends.append(stages._limit.when())

        loop = asyncio.get_running_loop()
        assert await stages.within(apart(work), late) == "done"
        assert ends == sorted(set(ends))

    play(test)


@pytest.mark.parametrize(("stage", "setting"), [("loading", "LOAD"), ("warming", "WARM"), ("verifying", "VERIFY")])
def test_what_takes_too_long_is_named_ended_and_freed_later(play, stage, setting):
    async def test(stages, late, freed):
        ended = threading.Event()

        def work():
            stages.enter(LoadStage(stage), ended.set)
            ended.wait(60)
            return "late"

        with pytest.raises(LoadTimeout, match=rf"{stage} took longer than 0.05 s") as refusal:
            await stages.within(apart(work), late)
        assert f"SANDSEAL_{setting}_TIME_S" in refusal.value.hint
        assert stages.overdue is not None
        assert (await freed.get()).result() == "late"
        await until(lambda: not hanging())

    play(test, **{f"{setting.lower()}_time_s": 0.05})


def test_a_stage_that_is_entered_after_the_time_is_ended_at_once(play):
    async def test(stages, late, freed):
        gate, ended = threading.Event(), threading.Event()

        def work():
            gate.wait(60)
            stages.enter(LoadStage.WARMING, ended.set)
            assert ended.wait(60)

        with pytest.raises(LoadTimeout):
            await stages.within(apart(work), late)
        gate.set()
        assert (await freed.get()).exception() is None

    play(test, verify_time_s=0.05)


def test_work_s_own_timeout_is_no_stage_s(play):
    async def test(stages, late, freed):
        def work():
            raise TimeoutError("the disk")

        with pytest.raises(TimeoutError, match="the disk"):
            await stages.within(apart(work), late)
        assert stages.overdue is None

    play(test)


def test_who_goes_away_gives_the_work_up(play):
    async def test(stages, late, freed):
        gate = threading.Event()
        task = asyncio.create_task(stages.within(apart(lambda: gate.wait(60)), late))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert hanging()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        assert (await freed.get()).result() is True

    play(test)
