import asyncio
import threading
from dataclasses import replace

import numpy as np
import pytest

from sandseal_host.errors import HostError, NotReady, PluginBadOutput, RequestInvalid
from sandseal_host.serving.model import Model
from sandseal_host.serving.request import STANDARD
from sandseal_host.serving.states import ModelState
from support.serving import ROW, Doubler, Stage, manifest, ready_model, request, tensor


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def test_without_stages_the_lane_answers():
    async def test():
        model = ready_model()
        response = await model.infer(request(7, rows=3))
        assert [t.name for t in response.outputs] == ["y"]
        assert np.array_equal(response.outputs[0].data, np.full((3, 2), 14))
        assert list(response.timings) == ["queue", "run"]

    run(test())


def test_stages_run_around_the_lane_and_are_timed():
    async def test():
        pre = Stage(lambda raw: raw.reshape(-1, 2))
        post = Stage(lambda rows: rows.sum(1), "label")
        model = ready_model(pre=pre, post=post)
        response = await model.infer(request(1, [1, 2, 3, 4], arrival=5.0, deadline=9e9))
        assert response.outputs[0].name == "label"
        assert response.outputs[0].data.tolist() == [6, 14]
        assert list(response.timings) == ["pre", "queue", "run", "post"]
        assert pre.calls == post.calls == [(b"{}", 5.0 + STANDARD.target_s, 9e9)]

    run(test())


def test_rows_are_counted_behind_the_pre_stage():
    async def test():
        model = ready_model(pre=Stage(lambda raw: raw.reshape(-1, 2)))
        assert (await model.infer(request(1, np.zeros(8)))).outputs[0].shape == (4, 2)
        with pytest.raises(RequestInvalid, match="5 rows"):
            await model.infer(request(2, np.zeros(10)))
        assert (await model.infer(request(3, np.zeros(0)))).outputs[0].shape == (0, 2)

    run(test())


def test_no_rows_are_answered_without_a_run():
    async def test():
        runner = Doubler()
        model = ready_model(runner=runner)
        response = await model.infer(request(1, rows=0))
        assert response.outputs[0].shape == response.outputs[0].data.shape == (0, 2)
        assert response.outputs[0].data.dtype == np.float32
        assert runner.batches == []

    run(test())


def test_no_rows_make_no_output_of_the_askers_size():
    async def test():
        described = manifest()
        inputs, outputs = (replace(ROW, shape=("batch", "n")),), (replace(ROW, name="y", shape=("n",)),)
        model = ready_model(
            described=replace(described, model=replace(described.model, inputs=inputs, outputs=outputs))
        )
        with pytest.raises(RequestInvalid, match="no rows"):
            await model.infer(request(1, np.zeros((0, 2**31 - 1), np.float32)))

    run(test())


def test_what_the_pre_stage_makes_must_agree_on_rows():
    class Uneven(Stage):
        async def apply(self, inputs, *rest):
            return (tensor(np.zeros((1, 2))), tensor(np.zeros((2, 2)), "z"))

    async def test():
        described = manifest(staged=True)
        two_inputs = replace(described.model, inputs=(ROW, replace(ROW, name="z")))
        model = ready_model(pre=Uneven(np.copy), described=replace(described, model=two_inputs))
        with pytest.raises(PluginBadOutput, match=r"\[1, 2\] rows"):
            await model.infer(request(1, np.ones(2)))

    run(test())


def test_states_follow_each_other():
    async def test():
        model = Model(manifest(), "0" * 64)
        with pytest.raises(NotReady, match="pending"):
            await model.infer(request(1))
        with pytest.raises(HostError, match="cannot become ready"):
            model.advance(ModelState.READY)
        model.advance(ModelState.VERIFYING)
        model.fail("a byte changed")
        assert (model.state, model.reason) == (ModelState.FAILED, "a byte changed")
        with pytest.raises(NotReady, match="failed"):
            await model.infer(request(1))

    run(test())


def test_drain_answers_what_is_in_flight_and_unload_gives_everything_back():
    async def test():
        gate = threading.Event()
        runner, pre, post = Doubler(gate=gate), Stage(lambda x: x.reshape(-1, 2)), Stage(lambda x: x)
        model = ready_model(runner=runner, pre=pre, post=post)
        answer = asyncio.create_task(model.infer(request(1, np.ones(2))))
        await asyncio.to_thread(runner.started.wait, 60)
        draining = asyncio.create_task(model.drain())
        await asyncio.sleep(0)
        assert model.state is ModelState.DRAINING
        assert model.statistics().in_flight == 1
        late = asyncio.create_task(model.infer(request(2, np.ones(2))))  # got the model before it was replaced
        await asyncio.sleep(0)
        gate.set()
        await draining
        assert answer.done()
        assert late.done()
        await model.unload()
        assert runner.closed
        assert pre.closed
        assert post.closed
        assert model.state is ModelState.UNLOADED
        with pytest.raises(NotReady):
            await model.infer(request(3))

    run(test())


def test_a_bounded_drain_refuses_what_waits():
    async def test():
        gate = threading.Event()
        runner = Doubler(max_rows=1, gate=gate)
        model = ready_model(runner=runner)
        running = asyncio.create_task(model.infer(request(1)))
        await asyncio.to_thread(runner.started.wait, 60)
        waiting = asyncio.create_task(model.infer(request(2)))
        draining = asyncio.create_task(model.drain(0.01))
        with pytest.raises(NotReady):
            await waiting
        gate.set()
        await draining
        assert (await running).outputs[0].shape == (1, 2)
        await model.unload()

    run(test())


def test_hold_keeps_a_draining_model_loaded():
    async def test():
        model = ready_model()
        with model.hold():
            draining = asyncio.create_task(model.drain())
            await asyncio.sleep(0.01)
            assert not draining.done()
            await model.infer(request(1))
        await draining

    run(test())
