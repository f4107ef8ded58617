"""The stage pool: order of urgency, expiry, cancellation, bounds, closing. Guests are real."""

import asyncio
import contextlib
import gc
import math
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from sandbox.guests import DONE, floats, guest, stage_spec
from sandseal_host.errors import DeadlineExpired, InputRefused, PluginTimeout, QueueFull, RequestInvalid, ShuttingDown
from sandseal_host.sandbox import SandboxEngine, StagePool
from sandseal_host.tensors import Tensor

SLOW = guest(f"(loop $l (br $l)) {DONE}")
FAR = 1e9


@pytest.fixture
def pool(engine: SandboxEngine) -> Iterator[StagePool]:
    pool = StagePool(engine.compile(guest(), stage_spec(), label="echo"), 2)
    yield pool
    pool.close()


@pytest.fixture
def stuck(engine: SandboxEngine) -> Iterator[StagePool]:
    """One thread, whose every call takes 150 ms and fails."""
    pool = StagePool(engine.compile(SLOW, stage_spec(time_ms=150)), 1, max_waiting=3)
    yield pool
    pool.close()


async def apply(pool: StagePool, value: float = 1, urgency: float = 0, deadline: float = FAR) -> tuple[Tensor, ...]:
    return await pool.apply((floats(value),), b"{}", urgency, deadline)


async def hold(pool: StagePool) -> "asyncio.Task[tuple[Tensor, ...]]":
    """Begin a call and wait until a thread runs it."""
    task = asyncio.create_task(apply(pool))
    while not pool.statistics().running:  # noqa: ASYNC110 - it runs on a thread
        await asyncio.sleep(0.001)
    return task


def test_every_caller_gets_its_own_answer(pool: StagePool) -> None:
    async def main() -> list[tuple[Tensor, ...]]:
        return await asyncio.gather(*(apply(pool, i) for i in range(200)))

    answers = asyncio.run(main())
    assert [y.data.tolist() for (y,) in answers] == [[i] for i in range(200)]
    statistics = pool.statistics()
    assert (statistics.done, statistics.waiting, statistics.running, statistics.threads) == (200, 0, 0, 2)


def test_errors_reach_the_caller(pool: StagePool, stuck: StagePool) -> None:
    async def main() -> None:
        with pytest.raises(RequestInvalid):
            await pool.apply((), b"{}", 0, FAR)
        with pytest.raises(PluginTimeout):
            await apply(stuck)

    asyncio.run(main())


def test_the_most_urgent_runs_first(stuck: StagePool) -> None:
    order: list[float] = []

    async def one(urgency: float) -> None:
        with pytest.raises(PluginTimeout):
            await apply(stuck, urgency=urgency)
        order.append(urgency)

    async def main() -> None:
        held = await hold(stuck)
        await asyncio.gather(one(3.0), one(1.0), one(2.0))
        with pytest.raises(PluginTimeout):
            await held

    asyncio.run(main())
    assert order == [1.0, 2.0, 3.0]


def test_a_full_queue_refuses(stuck: StagePool) -> None:
    async def main() -> None:
        tasks = [await hold(stuck), *(asyncio.create_task(apply(stuck)) for _ in range(3))]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await apply(stuck)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert stuck.statistics().cancelled == 3


def test_an_expired_call_is_not_begun(stuck: StagePool) -> None:
    async def main() -> None:
        held = await hold(stuck)
        started = time.monotonic()
        with pytest.raises(DeadlineExpired):
            await apply(stuck, deadline=started + 0.02)
        assert not held.done()  # when it expires, not when a thread is free
        with pytest.raises(DeadlineExpired):
            await apply(stuck, deadline=started)
        with pytest.raises(PluginTimeout):
            await held

    asyncio.run(main())
    statistics = stuck.statistics()
    assert (statistics.expired, statistics.done) == (2, 1)


def test_a_cancelled_call_leaves_the_queue(stuck: StagePool) -> None:
    async def main() -> None:
        held = await hold(stuck)
        waiting = asyncio.create_task(apply(stuck))
        await asyncio.sleep(0)
        assert stuck.statistics().waiting == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert stuck.statistics().waiting == 0
        held.cancel()  # runs to its end, for nobody
        with pytest.raises(asyncio.CancelledError):
            await held

    asyncio.run(main())
    stuck.close()
    statistics = stuck.statistics()
    assert (statistics.cancelled, statistics.done) == (1, 1)


def test_closing_refuses_what_waits_and_lets_run_what_runs(engine: SandboxEngine) -> None:
    stuck = StagePool(engine.compile(SLOW, stage_spec(time_ms=150)), 1)

    async def main() -> None:
        held = await hold(stuck)
        waiting = asyncio.create_task(apply(stuck))
        await asyncio.sleep(0)
        await asyncio.to_thread(stuck.close)
        with pytest.raises(ShuttingDown):
            await waiting
        with pytest.raises(PluginTimeout):
            await held
        with pytest.raises(ShuttingDown):
            await apply(stuck)

    asyncio.run(main())
    stuck.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sandseal-stage")]


def test_a_caller_whose_loop_is_gone_harms_nobody(stuck: StagePool) -> None:
    async def leave() -> None:
        await hold(stuck)

    asyncio.run(leave())  # cancels the call and closes the loop while the guest runs
    stuck.close()
    assert stuck.statistics().done == 1


def test_nothing_holds_a_call_once_it_is_answered(pool: StagePool, engine: SandboxEngine) -> None:
    """Neither a thread that waits nor an error in a cycle: inputs can be large and refusals frequent."""
    refusing = StagePool(engine.compile(guest("(i32.const 1)"), stage_spec()), 1)
    held: list[weakref.ref[object]] = []

    async def one(pool: StagePool) -> None:
        tensor = floats(1, 2, 3)
        held.append(weakref.ref(tensor.data))
        with contextlib.suppress(InputRefused):
            await pool.apply((tensor,), b"{}", 0, math.inf)

    gc.disable()
    try:
        for runner in (pool, refusing):
            asyncio.run(one(runner))
        time.sleep(0.05)
        assert [ref() is None for ref in held] == [True, True]
    finally:
        gc.enable()
        refusing.close()


def test_a_caller_who_leaves_frees_the_thread(engine: SandboxEngine) -> None:
    pool = StagePool(engine.compile(SLOW, stage_spec(time_ms=20_000)), 1)

    async def main() -> None:
        held = await hold(pool)
        held.cancel()
        while pool.statistics().running:  # noqa: ASYNC110 - it runs on a thread
            await asyncio.sleep(0.01)

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 5
    statistics = pool.plugin_statistics()
    assert (statistics.calls, statistics.cancelled, statistics.failed) == (1, 1, 0)
    pool.close()
