"""Pipelines of tiny models and plugins: what every step is asked, what comes of it, and what becomes of failures."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandseal_host.errors import (
    CircuitOpen,
    HostError,
    MemberUnavailable,
    ModelFailed,
    NotReady,
    PluginTrapped,
    QueueFull,
    RequestInvalid,
    Revoked,
    TooLarge,
)
from sandseal_host.serving import fan_out
from sandseal_host.serving.guarded_stage import GuardedStage
from sandseal_host.serving.live import LiveModels
from sandseal_host.serving.model import Model
from sandseal_host.serving.parts import ModelParts
from sandseal_host.serving.pipeline import Pipeline, StepPlugins
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME, Request, Response
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.states import ModelState
from sandseal_signing.generation import GenerationSpec
from sandseal_signing.manifest import Manifest, ModelSpec
from sandseal_signing.pipeline import PipelineSpec, Source, StepSpec
from sandseal_signing.stage import StageSpec
from sandseal_signing.state import StateSpec
from sandseal_signing.tensor import DataType, TensorSpec
from support.serving import Doubler, Stage, manifest, ready_model, request, tensor

WIDE = TensorSpec("raw", DataType.FP32, ("n", 2))
X = TensorSpec("x", DataType.FP32, ("batch", 2))
Y = TensorSpec("y", DataType.FP32, ("batch", 2))
NAME = "acme.chain"


def run(test):
    asyncio.run(asyncio.wait_for(test, 30))


def model_step(name: str, source: str, model: str = "acme.double", bundle: str = "", **more) -> StepSpec:
    return StepSpec(name, (X,), (Y,), (Source(*source.split(".")),), model=model, bundle=bundle, **more)


def plugin_step(name: str, source: str, **more) -> StepSpec:
    stage = StageSpec(f"plugins/{name}.wasm", "f", (WIDE,), (X,), **more)
    return StepSpec(name, (WIDE,), (X,), (Source(*source.split(".")),), stage=stage)


def chain(*steps: StepSpec, source: str = "") -> PipelineSpec:
    last = steps[-1]
    out = Source(*source.split(".")) if source else Source(last.name, last.outputs[0].name)
    return PipelineSpec((WIDE,), (TensorSpec("out", DataType.FP32, ("line", 2)),), (out,), steps)


TWICE = chain(model_step("first", "input.raw"), plugin_step("shift", "first.y"), model_step("second", "shift.x"))


class Host:
    """Models that serve, and pipelines over them."""

    def __init__(self) -> None:
        self.live = LiveModels()

    def serve(self, model: Model) -> Model:
        self.live.switch(model)
        return model

    def find(self, name: str, bundle: str):
        return self.live.pinned(name, bundle) if bundle else self.live.get(name)

    def pipeline(self, spec: PipelineSpec = TWICE, find: Callable | None = None, **stages: Stage) -> Model:
        model = Model(Manifest(NAME, 1, ModelSpec("", spec.inputs, spec.outputs), pipeline=spec), "c" * 64)
        for state in (ModelState.VERIFYING, ModelState.LOADING, ModelState.WARMING):
            model.advance(state)
        own = {"shift": Stage(lambda x: x + 1), **stages}
        guarded = {name: GuardedStage(own[name], stage) for name, stage in spec.stages.items()}
        plugins = StepPlugins(guarded)
        lane = Pipeline(spec, plugins, find or self.find, SchedulerSettings(max_requests=8), name=NAME)
        model.serve(ModelParts(plugins, lane))
        return model


def asked(rows: int = 1, number: int = 1, **more) -> Request:
    told = request(number, rows=rows, **more)
    return replace(told, inputs=(replace(told.inputs[0], name="raw"),))


class Recorder:
    """A member that answers y = x, and remembers what it was asked."""

    def __init__(self, max_rows: int = 4, **settings) -> None:
        self.manifest, self.bundle_id, self.precision = manifest(), "d" * 64, None
        self.settings = SchedulerSettings(max_rows=max_rows, **settings)
        self.requests: list[Request] = []
        self.holds = self.waiting = self.most_waiting = self.cancelled = 0
        self.gate, self.full = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.wanted = 0  # requests that wait at once, upon which it is full
        self.fail: Callable[[Request], HostError | None] = lambda _: None
        self.trouble: CircuitOpen | None = None

    @contextmanager
    def hold(self):
        self.holds += 1
        try:
            yield
        finally:
            self.holds -= 1

    def impediment(self):
        return self.trouble

    async def infer(self, given: Request) -> Response:
        assert self.holds
        self.requests.append(given)
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        if self.waiting == self.wanted:
            self.full.set()
        try:
            if (error := self.fail(given)) is not None:
                raise error
            await asyncio.sleep(0)
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return Response((tensor(given.inputs[0].data, "y"),), {"queue": 0.1, "run": 0.2 * given.rows})


ONE = chain(model_step("only", "input.raw"))


def test_steps_answer_one_after_the_other():
    async def test():
        host = Host()
        double = host.serve(ready_model())
        pipeline = host.pipeline()
        response = await pipeline.infer(asked(3, 5))
        assert [t.name for t in response.outputs] == ["out"]
        assert np.array_equal(response.outputs[0].data, np.full((3, 2), 22))  # (5 * 2 + 1) * 2
        assert [*response.timings] == ["first.queue", "first.run", "shift", "second.queue", "second.run"]
        assert response.members == {"first": double.bundle_id, "second": double.bundle_id}
        assert (await double.infer(request(1))).members == {}  # which others may ask as well
        assert pipeline.statistics().pipeline.step["first"].rows_total == 3
        assert pipeline.served().requests == 1

    run(test())


def test_every_step_has_the_request_s_class_tenant_deadline_and_arrival():
    async def test():
        member, stage = Recorder(), Stage(lambda x: x)
        pipeline = Host().pipeline(find=lambda *_: member, shift=stage)
        told = replace(
            asked(6, service_class=REALTIME, tenant="them", arrival=3.0, deadline=9e9), parameters=b'{"a": 1}'
        )
        await pipeline.infer(told)
        assert [part.rows for part in member.requests] == [4, 2, 4, 2]
        for part in member.requests:
            kept = (part.service_class, part.tenant, part.arrival, part.deadline, part.parameters, part.step)
            assert kept == (REALTIME, "them", 3.0, 9e9, b'{"a": 1}', None)
        assert stage.calls == [(b'{"a": 1}', 3.0 + REALTIME.target_s, 9e9)]
        assert len({told.id, *(part.id for part in member.requests)}) == 5

    run(test())


@given(st.integers(0, 50), st.integers(1, 20), st.integers(1, 64))
def test_rows_come_out_as_they_went_in(rows: int, most: int, places: int):
    async def test():
        member = Recorder(most, max_requests=places)
        values = np.random.default_rng(rows).normal(size=(rows, 2)).astype(np.float32)
        response = await Host().pipeline(ONE, find=lambda *_: member).infer(asked_values(values))
        assert np.array_equal(response.outputs[0].data, values)
        assert [part.rows for part in member.requests] == [min(most, rows - at) for at in range(0, rows, most)]
        assert all(part.inputs[0].shape == (part.rows, 2) for part in member.requests)

    run(test())


def asked_values(values) -> Request:
    return replace(request(1), inputs=(tensor(values, "raw"),))


def test_all_parts_wait_at_once_and_the_slowest_is_what_is_told():
    async def test():
        member = Recorder(2)
        member.wanted = 4
        member.gate.clear()
        answer = asyncio.create_task(Host().pipeline(ONE, find=lambda *_: member).infer(asked(7)))
        await member.full.wait()
        member.gate.set()
        assert (await answer).timings == {"only.queue": 0.1, "only.run": 0.4}
        assert member.holds == 0

    run(test())


def test_one_request_leaves_half_of_a_model_s_queue_to_others():
    async def test():
        member = Recorder(1, max_requests=10)
        response = await Host().pipeline(ONE, find=lambda *_: member).infer(asked(30))
        assert response.outputs[0].shape == (30, 2)
        assert member.most_waiting == 5
        classes = {**CLASSES, "batch": replace(BATCH, max_requests=6)}
        narrow = Recorder(1, max_requests=10, classes=classes)
        await Host().pipeline(ONE, find=lambda *_: narrow).infer(asked(30, service_class=BATCH))
        assert narrow.most_waiting == 3

    run(test())


def test_more_rows_than_may_wait_for_a_model_are_refused_before_it_is_asked():
    async def test():
        member = Recorder(2, max_queued_rows=6)
        pipeline = Host().pipeline(ONE, find=lambda *_: member)
        assert (await pipeline.infer(asked(6))).outputs[0].shape == (6, 2)
        many = np.broadcast_to(np.float32(0), (2**31 - 1, 2))
        for values, rows in ((np.ones((7, 2), np.float32), 7), (many, 2**31 - 1)):
            with pytest.raises(TooLarge, match=f"step 'only': {rows} rows for 'acme.double', and at most 6") as told:
                await pipeline.infer(asked_values(values))
            assert (told.value.data["got"], told.value.data["limit"]) == (rows, 6)
        assert len(member.requests) == 3
        assert pipeline.statistics().pipeline.step["only"].rows_total == 6

    run(test())


def test_outputs_that_are_too_large_together_give_the_others_up(monkeypatch):
    async def test():
        member = Recorder(1, max_requests=4)
        pipeline = Host().pipeline(ONE, find=lambda *_: member)
        assert (await pipeline.infer(asked(3))).outputs[0].data.nbytes == 24
        with pytest.raises(TooLarge, match="step 'only': the rows came to over 24 bytes"):
            await pipeline.infer(asked(100))
        assert len(member.requests) < 20
        assert (member.waiting, member.holds) == (0, 0)

    monkeypatch.setattr(fan_out, "_MAX_BYTES", 24)
    run(test())


def test_no_rows_make_outputs_without_rows_and_no_run():
    async def test():
        host, runner = Host(), Doubler()
        host.serve(ready_model(runner=runner))
        response = await host.pipeline().infer(asked(0))
        assert response.outputs[0].shape == response.outputs[0].data.shape == (0, 2)
        assert response.outputs[0].data.dtype == np.float32
        assert runner.batches == []

    run(test())


def test_a_part_that_fails_gives_the_others_up_and_names_its_step():
    async def test():
        member = Recorder(1)
        member.gate.clear()
        pipeline = Host().pipeline(ONE, find=lambda *_: member)
        member.fail = lambda given: QueueFull("no room", retry_after=3.0) if given.inputs[0].data[0, 0] == 2 else None
        with pytest.raises(QueueFull, match="step 'only': no room") as caught:
            await pipeline.infer(asked_values(np.array([[0, 0], [1, 1], [2, 2], [3, 3]])))
        assert (caught.value.retry_after, caught.value.data["step"]) == (3.0, "only")
        assert (member.waiting, member.cancelled, member.holds) == (0, 3, 0)
        assert pipeline.statistics().pipeline.step["only"].failed_total == 1
        assert pipeline.served().failed == 1

    run(test())


def test_a_caller_that_leaves_takes_every_part_out_of_the_queue():
    async def test():
        host, gate = Host(), threading.Event()
        runner = Doubler(max_rows=2, gate=gate)
        double = host.serve(ready_model(runner=runner))
        pipeline = host.pipeline()
        answer = asyncio.create_task(pipeline.infer(asked(12)))
        await asyncio.to_thread(runner.started.wait, 20)
        assert double.explain().waiting
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        assert sum(double.explain().waiting.values()) == 0
        assert (pipeline.statistics().in_flight, pipeline.statistics().pipeline.running) == (0, 0)
        gate.set()  # nobody wants the batch that runs: it is broken off anyway
        await double.drain()
        assert len(runner.batches) <= 2

    run(test())


def test_at_every_model_the_most_urgent_goes_first_whichever_way_it_came():
    async def test():
        host, gate = Host(), threading.Event()
        runner = Doubler(max_rows=1, gate=gate)
        double = host.serve(ready_model(runner=runner))
        pipeline = host.pipeline(ONE)
        first = asyncio.create_task(double.infer(request(1, service_class=BATCH)))
        await asyncio.to_thread(runner.started.wait, 20)
        others = [asyncio.create_task(double.infer(request(10 + i, service_class=BATCH))) for i in range(3)]
        others.append(asyncio.create_task(pipeline.infer(asked(1, 20, service_class=BATCH))))
        others.append(asyncio.create_task(pipeline.infer(asked(1, 30, service_class=REALTIME))))
        await asyncio.sleep(0)
        assert double.explain().waiting == {"realtime": 1, "standard": 0, "batch": 4}
        gate.set()
        await asyncio.gather(first, *others)
        assert runner.batches == [[1], [30], [10], [11], [12], [20]]

    run(test())


def test_what_a_step_needs_is_told_before_anything_runs():
    async def test():
        host, stage = Host(), Stage(lambda x: x)
        steps = (
            plugin_step("shift", "input.raw"),
            model_step("one", "shift.x"),
            model_step("two", "one.y", model="acme.other"),
        )
        pipeline = host.pipeline(chain(*steps), shift=stage)
        with pytest.raises(MemberUnavailable, match=r"step 'one' needs model .*; step 'two' needs model") as told:
            await pipeline.infer(asked())
        assert [each["step"] for each in told.value.data["waiting"]] == ["one", "two"]
        host.serve(ready_model())
        assert pipeline.impediment().message == "step 'two' needs model 'acme.other': there is no model 'acme.other'"
        host.serve(ready_model(name="acme.other"))
        assert pipeline.impediment() is None
        assert stage.calls == []
        await pipeline.infer(asked())

    run(test())


def test_a_model_whose_plugin_is_left_alone_is_told_of_and_says_itself_when_to_come_back():
    async def test():
        member = Recorder()
        pipeline = Host().pipeline(ONE, find=lambda *_: member)
        member.trouble = CircuitOpen("plugin 'p' failed 5 times in a row", retry_after=7.0)
        member.fail = lambda _: member.trouble
        assert (
            pipeline.impediment().message == "step 'only' needs model 'acme.double': plugin 'p' failed 5 times in a row"
        )
        with pytest.raises(CircuitOpen, match="step 'only': plugin 'p' failed") as caught:
            await pipeline.infer(asked())
        assert caught.value.retry_after == 7.0

    run(test())


def test_a_model_that_the_caller_may_not_see_is_as_if_it_were_not_there():
    async def test():
        host = Host()
        pipeline = host.pipeline(ONE)
        missing = pipeline.impediment("acme.*").message
        host.serve(ready_model())
        with pytest.raises(MemberUnavailable) as caught:
            await pipeline.infer(replace(asked(), models="acme.ch*"))
        assert caught.value.message == missing == pipeline.impediment("acme.ch*").message
        await pipeline.infer(replace(asked(), models="acme.*"))

    run(test())


OTHERS = {
    "it takes ['x', 'z']": lambda d: replace(d, model=replace(d.model, inputs=(X, replace(X, name="z")))),
    "it gives no 'y'": lambda d: replace(d, model=replace(d.model, outputs=(replace(Y, name="z"),))),
    "FP32 where FP64 is taken": lambda d: replace(d, model=replace(d.model, inputs=(replace(X, dtype=DataType.FP64),))),
    "is itself a pipeline": lambda d: replace(d, pipeline=ONE),
    "it generates text": lambda d: replace(d, generation=GenerationSpec("tokenizer.json", 8)),
    "it goes through sequences": lambda d: replace(d, model=replace(d.model, state=(StateSpec("x", "y"),))),
}


@pytest.mark.parametrize("says", OTHERS)
def test_a_model_that_is_not_what_was_signed_for_is_not_asked(says: str):
    async def test():
        host, runner = Host(), Doubler()
        host.serve(ready_model(described=OTHERS[says](manifest()), runner=runner))
        pipeline = host.pipeline(ONE)
        with pytest.raises(MemberUnavailable) as caught:
            await pipeline.infer(asked())
        assert caught.value.message.startswith("step 'only' needs model 'acme.double': ")
        assert says in caught.value.message
        assert runner.batches == []
        host.serve(ready_model(2))  # one that fits
        await pipeline.infer(asked())

    run(test())


def test_a_pinned_bundle_is_the_only_one_that_will_do():
    async def test():
        host = Host()
        first, second = ready_model(1), ready_model(2)
        pipeline = host.pipeline(chain(model_step("only", "input.raw", bundle=first.bundle_id)))
        assert "is not loaded" in pipeline.impediment().message
        host.serve(first)
        host.live.switch(second, beside=[1])
        response = await pipeline.infer(asked())
        assert response.members == {"only": first.bundle_id}
        assert host.live.get("acme.double") is second
        await host.live.unload("acme.double", 1)
        with pytest.raises(MemberUnavailable, match="is not loaded"):
            await pipeline.infer(asked())

    run(test())


def test_a_model_that_is_replaced_meanwhile_answers_from_its_next_step_on():
    async def test():
        host = Host()
        first, second = host.serve(ready_model(1)), ready_model(2)
        response = await host.pipeline(shift=Swapping(host, second)).infer(asked())
        assert response.members == {"first": first.bundle_id, "second": second.bundle_id}
        await host.live.settled()
        assert first.state is ModelState.UNLOADED

    run(test())


class Swapping(Stage):
    """Lets another version serve while it runs."""

    def __init__(self, host: Host, model: Model) -> None:
        super().__init__(np.copy)
        self._host, self._model = host, model

    async def apply(self, *given):
        self._host.serve(self._model)
        return await super().apply(*given)


def test_a_model_that_is_revoked_or_unloaded_under_a_request_is_missed_at_its_step():
    async def test():
        host, gate = Host(), threading.Event()
        runner = Doubler(max_rows=1, gate=gate)
        double = host.serve(ready_model(runner=runner))
        pipeline = host.pipeline()
        answer = asyncio.create_task(pipeline.infer(asked(4)))
        await asyncio.to_thread(runner.started.wait, 20)
        host.live.revoke(double.bundle_id, "bundle is revoked")
        with pytest.raises(MemberUnavailable, match=r"step 'first' needs model 'acme.double': bundle is revoked"):
            await answer
        assert "bundle is revoked" in pipeline.impediment().message
        gate.set()
        await host.live.settled()
        assert len(runner.batches) == 1
        assert runner.closed

    run(test())


def test_a_pipeline_that_is_revoked_refuses_what_is_under_way():
    async def test():
        host, gate = Host(), threading.Event()
        runner = Doubler(gate=gate)
        double = host.serve(ready_model(runner=runner))
        pipeline = host.serve(host.pipeline())
        answer = asyncio.create_task(pipeline.infer(asked()))
        await asyncio.to_thread(runner.started.wait, 20)
        host.live.revoke(pipeline.bundle_id, "nobody stands behind it")
        with pytest.raises(Revoked, match="nobody stands behind it"):
            await answer
        with pytest.raises(Revoked):
            await pipeline.infer(asked())
        await host.live.settled(NAME)
        gate.set()
        assert double.state is ModelState.READY
        assert (await double.infer(request(1))).outputs[0].data[0, 0] == 2

    run(test())


def test_draining_answers_what_is_under_way_and_breaks_it_off_when_its_time_is_over():
    async def test():
        host, gate = Host(), threading.Event()
        runner = Doubler(gate=gate)
        host.serve(ready_model(runner=runner))
        pipeline = host.serve(host.pipeline())
        answer = asyncio.create_task(pipeline.infer(asked()))
        await asyncio.to_thread(runner.started.wait, 20)
        await host.live.unload(NAME, drain_s=0.05)
        with pytest.raises(NotReady, match="being unloaded"):
            await answer
        gate.set()
        again = host.serve(host.pipeline())
        answer = asyncio.create_task(again.infer(asked()))
        await asyncio.sleep(0)
        await host.live.unload(NAME)
        assert (await answer).outputs[0].data[0, 0] == 6

    run(test())


class Trapping(Stage):
    async def apply(self, *given):
        raise PluginTrapped("unreachable", plugin="plugins/shift.wasm")


def test_a_plugin_that_fails_names_its_step_and_may_be_passed_over():
    async def test():
        host = Host()
        host.serve(ready_model())
        with pytest.raises(PluginTrapped, match="step 'shift': unreachable") as caught:
            await host.pipeline(shift=Trapping(np.copy)).infer(asked())
        assert caught.value.data == {"plugin": "plugins/shift.wasm", "step": "shift"}
        steps = (plugin_step("shift", "input.raw", on_failure="passthrough"), model_step("only", "shift.x"))
        response = await host.pipeline(chain(*steps), shift=Trapping(np.copy)).infer(asked(1, 4))
        assert response.skipped == ("shift",)
        assert response.outputs[0].data[0, 0] == 8

    run(test())


def test_tensors_of_other_shapes_than_were_signed_for_stop_where_they_came_from():
    async def test():
        host = Host()
        host.serve(ready_model())
        with pytest.raises(RequestInvalid, match="step 'first': tensor 'x' has shape"):
            await host.pipeline().infer(asked_values(np.ones((1, 3))))
        with pytest.raises(ModelFailed, match=r"step 'second': shift\.x came out in another shape"):
            await host.pipeline(shift=Stage(lambda x: x[:, :1])).infer(asked())

    run(test())


def test_as_many_requests_of_a_class_as_the_settings_say_are_under_way():
    async def test():
        member = Recorder()
        member.wanted = 8
        member.gate.clear()
        pipeline = Host().pipeline(ONE, find=lambda *_: member)
        waiting = [asyncio.create_task(pipeline.infer(asked())) for _ in range(8)]
        await member.full.wait()
        with pytest.raises(QueueFull):
            await pipeline.infer(asked())
        more = asyncio.create_task(pipeline.infer(asked(service_class=BATCH)))
        member.gate.set()
        await asyncio.gather(*waiting, more)

    run(test())
