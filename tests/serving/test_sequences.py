"""Sequences: each goes on where its last step ended, in order, apart from all others, and not for ever."""

import asyncio
import threading
from collections.abc import Sequence as Rows
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from sandseal_host.errors import (
    DeadlineExpired,
    ModelFailed,
    PluginTrapped,
    QueueFull,
    RequestInvalid,
    Revoked,
    SequenceLost,
    SequencesFull,
    TooLarge,
)
from sandseal_host.serving.lost_sequences import LostSequences
from sandseal_host.serving.model import Model
from sandseal_host.serving.request import STANDARD, Request, Step
from sandseal_host.serving.sequence import Sequence
from sandseal_host.serving.sequences import Sequences
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import Batching, Manifest, ModelSpec
from sandseal_signing.stage import StageSpec
from sandseal_signing.state import StateSpec
from sandseal_signing.tensor import DataType, TensorSpec
from support.clock import Clock
from support.serving import NEVER, Doubler, Handle, Stage, ready_model, tensor
from support.waiting import until

_numbers = count(1)

ROW = ("batch", 1)
SPEC = ModelSpec(
    "model.onnx",
    (TensorSpec("sum", DataType.FP32, ROW), TensorSpec("x", DataType.FP32, ROW)),
    (TensorSpec("y", DataType.FP32, ROW), TensorSpec("next", DataType.FP32, ROW)),
    batching=Batching(max_rows=8),
    state=(StateSpec("sum", "next"),),
)


class Adder(Doubler):
    """Adds up: next = sum + x, y = next; its batches are noted by x."""

    def run(self, requests: Rows[tuple[Tensor, ...]], handle: Handle | None = None) -> list[tuple[Tensor, ...]]:
        super().run([inputs[1:] for inputs in requests], handle)
        sums = [inputs[0].data + inputs[1].data for inputs in requests]
        return [(tensor(total, "y"), tensor(total, "next")) for total in sums]


def adding(
    runner: Doubler | None = None,
    *,
    most: int = 8,
    most_bytes: int = 1 << 20,
    lost: LostSequences | None = None,
    idle_s: float = 10.0,
    clock: Any = None,
    **stages: Stage,
) -> Model:
    """A model that adds up what its sequences send."""
    specs = {name: StageSpec("p.wasm", name, SPEC.plain_inputs, SPEC.plain_outputs) for name in stages}
    bounds = {"most": most, "most_bytes": most_bytes, "lost": lost or LostSequences()}
    sequences = Sequences("acme.sum", SPEC, idle_s=idle_s, **bounds, **({"clock": clock} if clock else {}))
    return ready_model(
        runner=runner or Adder(max_rows=8),
        described=Manifest("acme.sum", 1, SPEC, **specs),
        sequences=sequences,
        **stages,
    )


def step(
    value: float, name: str = "s", *, tenant: str = "t", deadline: float = NEVER, rows: int = 1, **flags: bool
) -> Request:
    inputs = (tensor(np.full((rows, 1), value)),)
    return Request(next(_numbers), inputs, rows, STANDARD, tenant, 0.0, deadline, step=Step(name, **flags))


async def ask(model: Model, *arguments: Any, **more: Any) -> float:
    response = await model.infer(step(*arguments, **more))
    assert [output.name for output in response.outputs] == ["y"]
    return float(response.outputs[0].data[0, 0])


def on_a_loop(test):
    def wrapped(*arguments, **more):
        asyncio.run(asyncio.wait_for(test(*arguments, **more), 60))

    wrapped.__name__ = test.__name__
    return wrapped


class TestState:
    @on_a_loop
    async def test_a_step_goes_on_where_the_last_one_ended(self):
        model = adding()
        assert [await ask(model, 1, start=True), await ask(model, 2), await ask(model, 4, end=True)] == [1, 3, 7]

    @on_a_loop
    async def test_sequences_and_tenants_are_apart(self):
        model = adding()
        for name, tenant, value in (("a", "t", 1), ("b", "t", 10), ("a", "u", 100)):
            assert await ask(model, value, name, tenant=tenant, start=True) == value
        assert await ask(model, 1, "a") == 2
        assert await ask(model, 1, "b") == 11
        assert await ask(model, 1, "a", tenant="u") == 101

    @on_a_loop
    async def test_a_start_begins_again(self):
        model = adding()
        await ask(model, 5, start=True)
        assert await ask(model, 1, start=True) == 1

    @on_a_loop
    async def test_all_rows_of_a_step_have_states_of_their_own(self):
        model = adding()
        for value, wanted in ((1, 1), (2, 3)):
            response = await model.infer(step(value, rows=3, start=value == 1))
            assert response.outputs[0].data.tolist() == [[wanted]] * 3
        with pytest.raises(RequestInvalid, match="3 rows, this one has 2"):
            await ask(model, 1, rows=2)

    @on_a_loop
    async def test_steps_of_several_sequences_share_a_batch(self):
        gate = threading.Event()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner)
        first = asyncio.create_task(ask(model, 1, "0", start=True))
        await asyncio.to_thread(runner.started.wait, 60)
        others = [asyncio.create_task(ask(model, n, str(n), start=True)) for n in range(1, 4)]
        await asyncio.sleep(0.05)
        gate.set()
        assert await asyncio.gather(first, *others) == [1, 1, 2, 3]
        assert runner.batches == [[1], [1, 2, 3]]

    @on_a_loop
    async def test_stages_see_no_state(self):
        pre, post = Stage(lambda x: 2 * x, "x"), Stage(lambda y: y + 0.5, "y")
        model = adding(pre=pre, post=post)
        assert [await ask(model, 1, start=True), await ask(model, 1)] == [2.5, 4.5]

    @on_a_loop
    async def test_through_a_waiter_too(self):
        model, loop = adding(), asyncio.get_running_loop()
        answers = [loop.create_future() for _ in range(3)]
        for number, answer in enumerate(answers, 1):
            model.begin(step(number, start=number == 1), answer)
        assert [float((await answer).outputs[0].data[0, 0]) for answer in answers] == [1, 3, 6]

    @on_a_loop
    async def test_no_rows_change_nothing(self):
        model = adding()
        await ask(model, 1, start=True)
        response = await model.infer(step(9, rows=0))
        assert [(t.name, t.shape) for t in response.outputs] == [("y", (0, 1))]
        assert await ask(model, 1) == 2


class TestSteps:
    @on_a_loop
    async def test_that_come_at_once_keep_their_order(self):
        model = adding()
        steps = [asyncio.create_task(ask(model, n, start=n == 1)) for n in range(1, 21)]
        assert await asyncio.gather(*steps) == [n * (n + 1) / 2 for n in range(1, 21)]

    @on_a_loop
    async def test_that_fail_leave_the_state(self):
        model = adding(Adder(max_rows=8, refuse=lambda rows: bool((rows == 13).any())))
        await ask(model, 1, start=True)
        with pytest.raises(ModelFailed):
            await ask(model, 13, end=True)
        assert await ask(model, 2) == 3

    @on_a_loop
    async def test_whose_post_stage_fails_leave_the_state(self):
        def fussy(y):
            if (y == 14).any():
                raise PluginTrapped("unlucky")
            return y

        model = adding(post=Stage(fussy, "y"))
        await ask(model, 1, start=True)
        with pytest.raises(PluginTrapped):
            await ask(model, 13)
        await model.infer(step(9, rows=0))
        assert await ask(model, 2) == 3

    @on_a_loop
    async def test_of_more_rows_than_a_run_takes_make_no_states(self):
        wide = TensorSpec("sum", DataType.FP32, ("batch", 1 << 30))
        spec = replace(SPEC, inputs=(wide, *SPEC.inputs[1:]))
        with pytest.raises(RequestInvalid, match="1 to 8 at once"):
            Sequence(spec, lambda *_: None).feed(step(1, rows=1 << 20))

    @on_a_loop
    async def test_that_are_given_up_leave_the_state(self):
        gate = threading.Event()
        gate.set()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner)
        await ask(model, 1, start=True)
        gate.clear()
        runner.started.clear()
        given_up = asyncio.create_task(ask(model, 5))
        await asyncio.to_thread(runner.started.wait, 60)
        later = asyncio.create_task(ask(model, 2))
        given_up.cancel()
        gate.set()
        assert await later == 3

    @on_a_loop
    async def test_wait_no_longer_than_they_may(self):
        gate = threading.Event()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner)
        first = asyncio.create_task(ask(model, 1, start=True))
        await asyncio.to_thread(runner.started.wait, 60)
        with pytest.raises(DeadlineExpired, match="the steps before it"):
            await ask(model, 2, deadline=asyncio.get_running_loop().time() + 0.05)
        gate.set()
        assert await first == 1
        assert await ask(model, 4) == 5

    @on_a_loop
    async def test_wait_in_no_more_than_a_certain_number(self):
        gate = threading.Event()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner)
        steps = [asyncio.create_task(ask(model, 1, start=n == 0)) for n in range(64)]
        await asyncio.to_thread(runner.started.wait, 60)
        with pytest.raises(QueueFull):
            await ask(model, 1)
        gate.set()
        assert (await asyncio.gather(*steps))[-1] == 64


class TestLife:
    @on_a_loop
    async def test_a_sequence_must_be_begun(self):
        model = adding()
        with pytest.raises(RequestInvalid, match="not begun") as caught:
            await ask(model, 1)
        assert "sequence_start" in caught.value.hint
        await ask(model, 1, start=True, end=True)
        with pytest.raises(RequestInvalid, match="has ended"):
            await ask(model, 1)

    @on_a_loop
    async def test_a_request_must_name_one(self):
        nameless = step(1)
        nameless.step = None
        with pytest.raises(RequestInvalid, match="names none"):
            await adding().infer(nameless)

    @on_a_loop
    async def test_one_that_is_left_alone_is_forgotten(self):
        clock = Clock()
        model = adding(clock=clock)
        await ask(model, 1, "a", start=True)
        clock.now += 9
        await ask(model, 1, "b", start=True)
        clock.now += 9
        with pytest.raises(RequestInvalid, match="left alone"):
            await ask(model, 1, "a")
        assert await ask(model, 1, "b") == 2
        statistics = model.statistics().sequences
        assert (statistics.open, statistics.begun_total, statistics.expired_total) == (1, 2, 1)

    @on_a_loop
    async def test_one_is_forgotten_though_a_slower_one_began_before_it(self):
        clock, gate = Clock(), threading.Event()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner, clock=clock)
        slow = asyncio.create_task(ask(model, 1, "slow", start=True))
        await asyncio.to_thread(runner.started.wait, 60)
        quick = asyncio.create_task(ask(model, 1, "quick", start=True, deadline=asyncio.get_running_loop().time()))
        with pytest.raises(DeadlineExpired):
            await quick
        clock.now += 9
        gate.set()
        await slow
        clock.now += 2
        with pytest.raises(RequestInvalid, match="left alone"):
            await ask(model, 1, "quick")
        assert await ask(model, 1, "slow") == 2

    @on_a_loop
    async def test_one_is_forgotten_though_nobody_asks(self):
        model = adding(idle_s=0.05)
        await ask(model, 1, start=True)
        await until(lambda: not model.statistics().sequences.open)
        assert model.statistics().sequences.expired_total == 1

    @on_a_loop
    async def test_one_with_a_step_under_way_is_not(self):
        clock, gate = Clock(), threading.Event()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner, clock=clock)
        first = asyncio.create_task(ask(model, 1, start=True))
        await asyncio.to_thread(runner.started.wait, 60)
        clock.now += 60
        other = asyncio.create_task(ask(model, 1, "other", start=True))
        await asyncio.sleep(0)
        assert model.statistics().sequences.expired_total == 0
        gate.set()
        await asyncio.gather(first, other)
        assert await ask(model, 1) == 2

    @on_a_loop
    async def test_no_more_are_open_than_may_be(self):
        clock = Clock()
        model = adding(most=3, clock=clock)
        for name in "ab":
            await ask(model, 1, name, start=True)
        with pytest.raises(SequencesFull) as caught:
            await ask(model, 1, "c", start=True)
        assert caught.value.retry_after == 10.0
        assert await ask(model, 1, "a", start=True) == 1  # takes its own place
        await ask(model, 1, "b", end=True)
        await ask(model, 1, "c", start=True)
        statistics = model.statistics().sequences
        assert (statistics.open, statistics.ended_total, statistics.refused_total) == (2, 1, 1)

    @on_a_loop
    async def test_no_tenant_takes_every_place(self):
        model = adding(most=4)
        for name in "abc":
            await ask(model, 1, name, start=True)
        with pytest.raises(SequencesFull):
            await ask(model, 1, "d", start=True)
        await ask(model, 1, "a", start=True, tenant="u")
        with pytest.raises(SequencesFull):
            await ask(model, 1, "b", start=True, tenant="u")

    @on_a_loop
    async def test_revoking_ends_them(self):
        gate = threading.Event()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner)
        first = asyncio.create_task(ask(model, 1, start=True))
        await asyncio.to_thread(runner.started.wait, 60)
        second = asyncio.create_task(ask(model, 2))
        await asyncio.sleep(0)
        model.revoke("no longer trusted")
        gate.set()
        assert await first == 1  # it was running
        with pytest.raises(Revoked):
            await second
        assert model.statistics().sequences.open == 0


class TestRoom:
    """Each row has a state of four bytes."""

    @on_a_loop
    async def test_states_have_no_more_bytes_than_they_may(self):
        model = adding(most_bytes=16)
        await ask(model, 1, "a", start=True, rows=2)
        with pytest.raises(SequencesFull, match="8 bytes, and this sequence's need 8 more") as caught:
            await ask(model, 1, "b", start=True, rows=2)  # no tenant has the last quarter
        assert "SANDSEAL_SEQUENCE_MIB" in caught.value.hint
        await ask(model, 1, "a", start=True, rows=2, tenant="u")
        with pytest.raises(SequencesFull, match="16 bytes"):
            await ask(model, 1, "a", start=True, tenant="v")
        statistics = model.statistics().sequences
        assert (statistics.state_bytes, statistics.refused_total) == (16, 2)
        await ask(model, 1, "a", end=True, rows=2, tenant="u")
        assert await ask(model, 1, "b") == 1  # the step that was refused may be sent again, with fewer rows
        assert model.statistics().sequences.state_bytes == 12

    @on_a_loop
    async def test_a_state_that_never_fits(self):
        with pytest.raises(TooLarge, match="16 bytes, over 12"):
            await ask(adding(most_bytes=16), 1, start=True, rows=4)

    @on_a_loop
    async def test_bytes_are_given_back(self):
        clock = Clock()
        model = adding(Adder(max_rows=8, refuse=lambda rows: bool((rows == 13).any())), most_bytes=16, clock=clock)
        for _ in range(3):
            await ask(model, 1, start=True, rows=3)  # in place of the one before
        clock.now += 60
        with pytest.raises(ModelFailed):
            await ask(model, 13, "b", start=True, rows=3)  # when the other one has expired
        assert await ask(model, 1, "b") == 1  # a step that did not count does not say how many rows there are
        assert model.statistics().sequences.state_bytes == 4
        await ask(model, 1, "b", end=True)
        assert model.statistics().sequences.state_bytes == 0

    @on_a_loop
    async def test_what_was_begun_anew_meanwhile_counts_once(self):
        gate = threading.Event()
        runner = Adder(max_rows=8, gate=gate)
        model = adding(runner, most_bytes=16)
        first = asyncio.create_task(ask(model, 1, start=True))
        await asyncio.to_thread(runner.started.wait, 60)
        second = asyncio.create_task(ask(model, 2, start=True))
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(first, second) == [1, 2]
        assert model.statistics().sequences.state_bytes == 4


class TestUnloading:
    @on_a_loop
    async def test_the_next_step_is_told_that_its_state_is_gone(self):
        lost = LostSequences()
        before, after = adding(lost=lost), adding(lost=lost)
        await ask(before, 1, "a", start=True)
        await ask(before, 1, "over", start=True, end=True)
        await before.drain()
        await before.unload()
        for _ in range(2):
            with pytest.raises(SequenceLost, match=r"'a' is gone: 'acme\.sum' was unloaded") as caught:
                await ask(after, 2, "a")
        assert "sequence_start" in caught.value.hint
        for name, tenant in (("over", "t"), ("a", "u")):
            with pytest.raises(RequestInvalid, match="not begun"):
                await ask(after, 2, name, tenant=tenant)
        assert await ask(after, 4, "a", start=True) == 4
        await ask(after, 1, "a", end=True)
        with pytest.raises(RequestInvalid, match="has ended"):
            await ask(after, 1, "a")

    def test_names_are_not_kept_without_bound(self):
        lost = LostSequences()
        for number in range(11):
            lost.add("m", [("t", f"{number}.{i}") for i in range(1000)])
        lost.check("m", ("t", "0.999"))
        with pytest.raises(SequenceLost):
            lost.check("m", ("t", "1.0"))
