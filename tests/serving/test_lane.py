import asyncio
import itertools
import random
import threading
import time

import numpy as np
import pytest

from sandseal_host.errors import (
    DeadlineExpired,
    DeadlineImpossible,
    MemoryExhausted,
    ModelFailed,
    NotReady,
    QueueFull,
    RequestInvalid,
)
from sandseal_host.serving.lane import Lane
from sandseal_host.serving.request import BATCH, REALTIME, STANDARD
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from support.serving import NEVER, Doubler, request
from support.waiting import until

THREADS = 0.0  # inline_below_s: no batch runs on the loop


def lane_test(test):
    """Run a test as a coroutine."""
    return lambda: asyncio.run(asyncio.wait_for(test(), 60))


def lane_of(runner, *, inline_below_s=THREADS, **settings) -> Lane:
    return Lane(runner, SchedulerSettings(max_rows=runner.max_rows, **settings), inline_below_s=inline_below_s)


def numbers(responses):
    return [int(response.outputs[0].data[0, 0]) for response in responses]


@lane_test
async def test_each_caller_gets_its_own_rows():
    lane = lane_of(Doubler(max_rows=16), instances=2)
    responses = await asyncio.gather(*(lane.run(request(number, rows=1 + number % 3)) for number in range(200)))
    for number, response in enumerate(responses):
        assert np.array_equal(response.outputs[0].data, np.full((1 + number % 3, 2), 2 * number))
        assert list(response.timings) == ["queue", "run"]
        assert all(seconds >= 0 for seconds in response.timings.values())
    await lane.close()


@lane_test
async def test_requests_of_one_turn_share_a_batch():
    runner = Doubler(max_rows=8)
    lane = lane_of(runner)
    await asyncio.gather(*(lane.run(request(number)) for number in range(6)))
    assert runner.batches == [[0, 1, 2, 3, 4, 5]]
    await lane.close()


@lane_test
async def test_batches_grow_while_the_instance_is_busy():
    gate = threading.Event()
    runner = Doubler(max_rows=8, gate=gate)
    lane = lane_of(runner)
    first = asyncio.create_task(lane.run(request(0)))
    await asyncio.to_thread(runner.started.wait, 60)
    others = [asyncio.create_task(lane.run(request(number))) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    gate.set()
    assert numbers([await first, *await asyncio.gather(*others)]) == [0, 2, 4, 6]
    assert runner.batches == [[0], [1, 2, 3]]
    await lane.close()


def test_a_delay_collects_what_comes_within_it():
    async def collects(delay_s: float) -> bool:
        """Whether this machine was quick enough for the delay."""
        runner = Doubler(max_rows=8)
        lane = lane_of(runner, max_delay_s=delay_s)
        began = time.monotonic()
        first, second = (asyncio.create_task(lane.run(request(number))) for number in range(2))
        await asyncio.sleep(0)
        third = asyncio.create_task(lane.run(request(2)))
        await asyncio.sleep(0)
        quick = time.monotonic() - began < delay_s
        await asyncio.gather(first, second, third)
        assert time.monotonic() - began >= delay_s
        await lane.run(request(3))
        assert runner.batches == [[0, 1, 2], [3]] or not quick
        await lane.close()
        return quick

    assert any(asyncio.run(collects(delay_s)) for delay_s in (0.1, 1.0, 10.0))


@lane_test
async def test_short_runs_move_to_the_loop_and_long_ones_leave_it():
    here = threading.current_thread().name
    runner = Doubler()
    lane = lane_of(runner, inline_below_s=0.01)
    for number in range(3):
        await lane.run(request(number))
    statistics = lane.statistics()
    assert (statistics.threaded, statistics.inline) == (1, 2)
    assert here in runner.threads

    def spin(rows):
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return False

    runner._refuse = spin
    for number in range(4):
        await lane.run(request(number))
    assert lane.statistics().inline == 3  # the one that showed it
    await lane.close()


@lane_test
async def test_one_inline_batch_a_turn():
    lane = lane_of(Doubler(max_rows=1), inline_below_s=1.0)
    await lane.run(request(0))
    turns = []

    async def count():
        while True:
            turns.append(lane.statistics().inline)
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    await asyncio.gather(*(lane.run(request(number)) for number in range(1, 20)))
    counter.cancel()
    assert max(b - a for a, b in itertools.pairwise(turns)) == 1
    await lane.close()


@pytest.mark.parametrize("inline_below_s", [THREADS, 1.0])
def test_one_bad_input_fails_alone(inline_below_s):
    async def test():
        runner = Doubler(max_rows=8, refuse=lambda rows: bool((rows == 3).any()))
        lane = lane_of(runner, inline_below_s=inline_below_s)
        await asyncio.gather(*(lane.run(request(number)) for number in range(10, 16)))
        answers = await asyncio.gather(*(lane.run(request(n)) for n in range(6)), return_exceptions=True)
        assert isinstance(answers[3], ModelFailed)
        assert numbers(answers[:3] + answers[4:]) == [0, 2, 4, 8, 10]
        assert runner.batches[1:] == [[0, 1, 2, 3, 4, 5], [0], [1], [2], [3], [4], [5]]
        await lane.close()

    asyncio.run(test())


@lane_test
async def test_what_no_input_causes_is_not_run_again():
    class Full(Doubler):
        def run(self, requests, handle=None):
            super().run(requests, handle)
            raise MemoryExhausted("no room")

    runner = Full(max_rows=8)
    lane = lane_of(runner)
    answers = await asyncio.gather(*(lane.run(request(n)) for n in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [MemoryExhausted] * 3
    assert runner.batches == [[0, 1, 2]]
    await lane.close()


@lane_test
async def test_a_run_past_the_latest_deadline_in_it_is_terminated():
    runner = Doubler(gate=threading.Event())  # never opens
    lane = lane_of(runner)
    began = time.monotonic()
    answers = await asyncio.gather(
        *(lane.run(request(n, deadline=began + seconds)) for n, seconds in ((0, 0.5), (1, 0.6))),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [DeadlineExpired] * 2
    assert time.monotonic() - began > 0.55  # the earlier one does not end it
    assert runner.batches == [[0, 1]]  # not run again
    assert lane.statistics().terminated == 1
    await lane.close()


@lane_test
async def test_a_run_that_everybody_has_left_is_terminated():
    runner = Doubler(gate=threading.Event())  # never opens
    lane = lane_of(runner)
    waiting = [asyncio.create_task(lane.run(request(number, deadline=NEVER))) for number in range(2)]
    await asyncio.to_thread(runner.started.wait, 60)
    for task in waiting:
        assert lane.statistics().terminated == 0
        task.cancel()
        await asyncio.sleep(0.05)
    await lane.close()
    assert lane.statistics().terminated == 1
    assert runner.batches == [[0, 1]]


@lane_test
async def test_a_run_that_would_never_end_does_not_keep_a_lane_from_closing():
    runner = Doubler(gate=threading.Event())  # never opens
    lane = lane_of(runner)
    answer = asyncio.create_task(lane.run(request(1, deadline=NEVER)))
    await asyncio.to_thread(runner.started.wait, 60)
    await lane.close(0.05)
    with pytest.raises(NotReady, match="being unloaded"):
        await answer
    assert lane.statistics().terminated == 1


@lane_test
async def test_a_run_that_somebody_waits_for_without_a_deadline_goes_on():
    gate = threading.Event()
    runner = Doubler(gate=gate)
    lane = lane_of(runner)
    soon = time.monotonic() + 0.5
    answers = [asyncio.create_task(lane.run(request(n, deadline=d))) for n, d in ((0, soon), (1, NEVER))]
    await until(lambda: time.monotonic() > soon)
    await asyncio.sleep(0.02)
    gate.set()
    assert numbers(await asyncio.gather(*answers)) == [0, 2]  # late is better than never: it was in the batch anyway
    assert lane.statistics().terminated == 0
    await lane.close()


@lane_test
async def test_a_request_that_nobody_waits_for_is_not_run_alone():
    gate = threading.Event()
    runner = Doubler(max_rows=8, gate=gate, refuse=lambda rows: bool((rows == 3).any()))
    lane = lane_of(runner)
    tasks = [asyncio.create_task(lane.run(request(n))) for n in range(4)]
    await asyncio.to_thread(runner.started.wait, 60)
    tasks[1].cancel()
    await asyncio.sleep(0)
    gate.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[3], ModelFailed)
    assert runner.batches == [[0, 1, 2, 3], [0], [2], [3]]
    await lane.close()


@lane_test
async def test_the_next_batch_is_gathered_while_this_one_runs():
    gate = threading.Event()
    runner = Doubler(max_rows=1, gate=gate)
    lane = lane_of(runner, instances=2)
    tasks = [asyncio.create_task(lane.run(request(n))) for n in range(3)]
    await asyncio.to_thread(runner.begun.acquire)
    await asyncio.to_thread(runner.begun.acquire)
    assert lane.statistics().scheduler.running == 2
    gate.set()
    assert numbers(await asyncio.gather(*tasks)) == [0, 2, 4]
    await lane.close()


@lane_test
async def test_requests_expire_on_time_while_the_instance_is_busy():
    gate = threading.Event()
    runner = Doubler(gate=gate)
    lane = lane_of(runner)
    first = asyncio.create_task(lane.run(request(0)))
    await asyncio.to_thread(runner.started.wait, 60)
    deadline = time.monotonic() + 0.05
    with pytest.raises(DeadlineExpired):
        await lane.run(request(1, deadline=deadline, service_class=BATCH))
    assert not first.done()
    gate.set()
    await first
    await lane.close()


@lane_test
async def test_a_cancelled_caller_leaves_the_queue_at_once():
    gate = threading.Event()
    runner = Doubler(gate=gate)
    lane = lane_of(runner, max_requests=1)
    running = asyncio.create_task(lane.run(request(0)))
    await asyncio.to_thread(runner.started.wait, 60)
    waiting = asyncio.create_task(lane.run(request(1)))
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await lane.run(request(2))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    third = asyncio.create_task(lane.run(request(3)))
    await asyncio.sleep(0)
    gate.set()
    assert numbers(await asyncio.gather(running, third)) == [0, 6]
    assert runner.batches == [[0], [3]]
    assert lane.statistics().scheduler.cancelled == 1
    await lane.close()


@lane_test
async def test_a_caller_cancelled_in_a_running_batch_harms_nobody():
    gate = threading.Event()
    runner = Doubler(gate=gate)
    lane = lane_of(runner)
    gone, other = asyncio.create_task(lane.run(request(0))), asyncio.create_task(lane.run(request(1)))
    await asyncio.to_thread(runner.started.wait, 60)
    gone.cancel()
    gate.set()
    assert numbers([await other]) == [2]
    assert gone.cancelled()
    await lane.close()


@lane_test
async def test_too_many_rows_are_refused():
    lane = lane_of(Doubler(max_rows=4))
    with pytest.raises(RequestInvalid, match="5 rows"):
        await lane.run(request(0, rows=5))
    await lane.close()


@lane_test
async def test_the_more_urgent_class_goes_first():
    gate = threading.Event()
    runner = Doubler(max_rows=1, gate=gate)
    lane = lane_of(runner)
    tasks = [asyncio.create_task(lane.run(request(0)))]
    await asyncio.to_thread(runner.started.wait, 60)
    now = time.monotonic()
    tasks.append(asyncio.create_task(lane.run(request(1, service_class=BATCH, arrival=now))))
    tasks.append(asyncio.create_task(lane.run(request(2, service_class=REALTIME, arrival=now))))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert runner.batches == [[0], [2], [1]]
    await lane.close()


@lane_test
async def test_close_answers_what_waits_and_refuses_what_comes():
    gate = threading.Event()
    runner = Doubler(max_rows=1, gate=gate)
    lane = Lane(runner, SchedulerSettings(max_rows=1), name="closing", inline_below_s=THREADS)
    tasks = [asyncio.create_task(lane.run(request(number))) for number in range(3)]
    await asyncio.to_thread(runner.started.wait, 60)
    closing = asyncio.create_task(lane.close())
    await asyncio.sleep(0)
    with pytest.raises(NotReady):
        await lane.run(request(9))
    gate.set()
    assert numbers(await asyncio.gather(*tasks)) == [0, 2, 4]
    await closing
    assert not any(thread.name.startswith("lane-closing") for thread in threading.enumerate())


@lane_test
async def test_close_with_a_bound_refuses_what_still_waits_then():
    gate = threading.Event()
    runner = Doubler(max_rows=1, gate=gate)
    lane = lane_of(runner)
    running = asyncio.create_task(lane.run(request(0)))
    await asyncio.to_thread(runner.started.wait, 60)
    waiting = asyncio.create_task(lane.run(request(1)))
    closing = asyncio.create_task(lane.close(0.01))
    with pytest.raises(NotReady):
        await waiting
    assert not closing.done()
    gate.set()
    assert numbers([await running]) == [0]
    await closing


@lane_test
async def test_an_unused_lane_has_no_threads():
    before = set(threading.enumerate())
    lane = lane_of(Doubler(), instances=4)
    assert set(threading.enumerate()) <= before
    await lane.close()


@lane_test
async def test_a_person_is_not_behind_a_flood():
    runner = Doubler(max_rows=4, took_s=0.002)
    lane = lane_of(runner, max_requests=100)
    flood = [
        asyncio.create_task(lane.run(request(n, service_class=BATCH, tenant="flood", arrival=time.monotonic())))
        for n in range(300)
    ]
    await asyncio.sleep(0.01)
    before = len(runner.batches)
    response = await lane.run(request(1000, service_class=REALTIME, tenant="person", arrival=time.monotonic()))
    assert numbers([response]) == [2000]
    turn = next(turn for turn, batch in enumerate(runner.batches) if 1000 in batch)
    assert turn - before <= 2  # behind the one that ran, and one that began meanwhile
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(answer, QueueFull) for answer in answers) >= 190
    await lane.close()


@pytest.mark.parametrize("inline_below_s", [THREADS, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_each_gets_its_own_rows_or_a_reason(seed, inline_below_s):
    chance = random.Random(seed)

    async def one(lane: Lane, number: int) -> str:
        await asyncio.sleep(chance.random() * 0.2)
        rows, now = chance.randint(1, 4), time.monotonic()
        asked = request(
            number,
            rows=rows,
            service_class=chance.choice([REALTIME, STANDARD, BATCH]),
            tenant=chance.choice("ab"),
            arrival=now,
            deadline=chance.choice([NEVER, now + 0.02]),
        )
        try:
            async with asyncio.timeout(chance.choice([None, 0.01])):  # a client that leaves
                response = await lane.run(asked)
        except TimeoutError:
            return "gone"
        except (DeadlineExpired, DeadlineImpossible, QueueFull, ModelFailed) as error:
            return type(error).__name__
        assert response.outputs[0].data.tolist() == [[2.0 * number] * 2] * rows
        return "answered"

    async def test():
        runner = Doubler(max_rows=8, took_s=0.002, refuse=lambda rows: bool((rows % 10 == 0).any()))
        lane = lane_of(runner, instances=2, max_requests=100, inline_below_s=inline_below_s)
        fates = await asyncio.gather(*(one(lane, number) for number in range(400)))
        await lane.close()
        assert "answered" in fates
        assert "answered" not in fates[::10]
        assert all(number % 10 == 0 for number, fate in enumerate(fates) if fate == "ModelFailed")
        statistics = lane.statistics().scheduler
        assert (statistics.requests, statistics.running) == (0, 0)

    asyncio.run(asyncio.wait_for(test(), 60))


@lane_test
async def test_each_thread_settles_once_before_its_first_run():
    settled, gate = [], threading.Event()
    runner = Doubler(gate=gate)
    lane = Lane(
        runner,
        SchedulerSettings(max_rows=1, instances=2),
        inline_below_s=THREADS,
        settle=lambda: settled.append(threading.current_thread().name),
    )
    answers = asyncio.gather(*(lane.run(request(number)) for number in range(8)))
    await until(lambda: len(runner.threads) == 2)
    gate.set()
    await answers
    assert set(settled) == runner.threads
    assert len(settled) == 2
    await lane.close()
