"""The stage pool: order of urgency, expiry, cancellation, bounds, closing. Guests are real."""

import asyncio
import contextlib
import gc
import math
import time
import weakref
from collections.abc import Iterator

import pytest

from sandbox.guests import ECHO, floats, guest, stage_spec
from sandseal_host.errors import DeadlineExpired, InputRefused, PluginTimeout, QueueFull, RequestInvalid, ShuttingDown
from sandseal_host.sandbox import SandboxEngine, StagePool
from sandseal_host.tensors import Tensor
from support.waiting import until, wait_until

# Loops at this input, until its caller leaves.
ENDLESS = 667.0
SLOW = guest(
    f"""(if (f32.eq (f32.load (i32.load offset=8 (call $in (local.get $call) (i32.const 0)))) (f32.const {ENDLESS}))
    (then (loop $l (br $l)))) {ECHO}"""
)
FAR = 1e9


@pytest.fixture
def pool(engine: SandboxEngine) -> Iterator[StagePool]:
    pool = StagePool(engine.compile(guest(), stage_spec(), label="echo"), 2)
    yield pool
    pool.close()


@pytest.fixture
def stuck(engine: SandboxEngine) -> Iterator[StagePool]:
    """One thread."""
    pool = StagePool(engine.compile(SLOW, stage_spec(time_ms=60_000)), 1, max_waiting=3)
    yield pool
    pool.close()


async def apply(pool: StagePool, value: float = 1, urgency: float = 0, deadline: float = FAR) -> tuple[Tensor, ...]:
    return await pool.apply((floats(value),), b"{}", urgency, deadline)


async def hold(pool: StagePool) -> "asyncio.Task[tuple[Tensor, ...]]":
    """Begin a call that goes on until it is cancelled, and wait until a thread runs it."""
    task = asyncio.create_task(apply(pool, ENDLESS))
    await until(lambda: pool.statistics().running)
    return task


async def leave(held: "asyncio.Task[tuple[Tensor, ...]]") -> None:
    """End such a call."""
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held


def test_every_caller_gets_its_own_answer(pool: StagePool) -> None:
    async def main() -> list[tuple[Tensor, ...]]:
        return await asyncio.gather(*(apply(pool, i) for i in range(200)))

    answers = asyncio.run(main())
    assert [y.data.tolist() for (y,) in answers] == [[i] for i in range(200)]
    statistics = pool.statistics()
    assert (statistics.done, statistics.waiting, statistics.running, statistics.threads) == (200, 0, 0, 2)


def test_errors_reach_the_caller(pool: StagePool, engine: SandboxEngine) -> None:
    brief = StagePool(engine.compile(SLOW, stage_spec(time_ms=50)), 1)

    async def main() -> None:
        with pytest.raises(RequestInvalid):
            await pool.apply((), b"{}", 0, FAR)
        with pytest.raises(PluginTimeout):
            await apply(brief, ENDLESS)

    asyncio.run(main())
    brief.close()


def test_the_most_urgent_runs_first(stuck: StagePool) -> None:
    order: list[float] = []

    async def one(urgency: float) -> None:
        await apply(stuck, urgency=urgency)
        order.append(urgency)

    async def main() -> None:
        held = await hold(stuck)
        calls = [asyncio.create_task(one(urgency)) for urgency in (3.0, 1.0, 2.0)]
        await asyncio.sleep(0)
        await leave(held)
        await asyncio.gather(*calls)

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
        await leave(held)

    asyncio.run(main())
    stuck.close()
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
        await leave(held)

    asyncio.run(main())
    stuck.close()
    statistics = stuck.statistics()
    assert (statistics.cancelled, statistics.done) == (1, 1)


def test_closing_refuses_what_waits_and_lets_run_what_runs(stuck: StagePool) -> None:
    async def main() -> None:
        held = await hold(stuck)
        waiting = asyncio.create_task(apply(stuck))
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(stuck.close))
        with pytest.raises(ShuttingDown):
            await waiting
        assert stuck.statistics().running == 1
        assert not closing.done()
        await leave(held)
        await closing
        with pytest.raises(ShuttingDown):
            await apply(stuck)

    asyncio.run(main())
    stuck.close()
    assert not any(thread.is_alive() for thread in stuck._threads)


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
        wait_until(lambda: [ref() is None for ref in held] == [True, True])
    finally:
        gc.enable()
        refusing.close()


def test_a_caller_who_leaves_frees_the_thread(stuck: StagePool) -> None:
    async def main() -> None:
        await leave(await hold(stuck))
        await until(lambda: not stuck.statistics().running)

    asyncio.run(main())
    statistics = stuck.plugin_statistics()
    assert (statistics.calls, statistics.cancelled, statistics.failed) == (1, 1, 0)
