"""Whatever joins, leaves, is held up or paused: each stream gets exactly the tokens that it gets alone."""

from dataclasses import replace
from functools import cache, partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sandseal_host.serving.request import CLASSES
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.ticket import TicketState
from sandseal_sdk.decoders.gguf_source import GgufSource
from support.decoders import decoder, opened
from support.generation import Driven, alone, continued, prompt_of, sampling
from support.imported_decoders import imported
from support.language_models import smollm2

SLOTS, MOST = 3, 12
PATIENT = {name: replace(service_class, expires_s=1e9) for name, service_class in CLASSES.items()}
SYSTEM = prompt_of(20, 99)


@cache
def tiny():
    """One for all examples."""
    return opened(decoder(), slots=SLOTS + 1)


class Interleavings(RuleBasedStateMachine):
    """An engine with few slots and little memory for what is paused, and anybody who comes."""

    runner = staticmethod(tiny)
    alone = staticmethod(alone)
    host_bytes = 1 << 20
    reserved = 0

    def __init__(self):
        super().__init__()
        self.classes = {**PATIENT, "realtime": replace(PATIENT["realtime"], reserved=self.reserved)}
        queue = SchedulerSettings(classes=self.classes, weights={"b": 2.0})
        self.driven = Driven(self.runner(), host_bytes=self.host_bytes, queue=queue)
        self.number = self.events = 0

    @rule(
        length=st.sampled_from([1, 2, 15, 16, 17, 40]),
        tokens=st.integers(1, MOST),
        name=st.sampled_from(sorted(CLASSES)),
        tenant=st.sampled_from("abc"),
        seed=st.sampled_from([None, 1, 2]),
        common=st.booleans(),
    )
    def join(self, length, tokens, name, tenant, seed, common):
        self.number += 1
        self.events += 1
        prompt = (SYSTEM if common else ()) + prompt_of(length, length)
        what = {"service_class": self.classes[name], "tenant": tenant, "sampling": sampling(seed)}
        self.driven.join(self.number, prompt, max_tokens=tokens, **what)

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def leave(self, data):
        sequence = data.draw(st.sampled_from(self.living()))
        self.driven.engine.cancel(sequence)
        self.events += 1

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def hold_or_read(self, data):
        sequence = data.draw(st.sampled_from(self.living()))
        sequence.behind = not sequence.behind
        self.events += 1

    @rule(steps=st.integers(1, 10))
    def go_on(self, steps):
        for _ in range(steps):
            self.driven.step()

    @rule(spare=st.sampled_from([0.0, float("inf")]))
    def let_others_have_the_memory(self, spare):
        self.driven.spare = spare

    @rule(seconds=st.sampled_from([0.5, 3.0, 70.0]))
    def wait(self, seconds):
        self.driven.clock.now += seconds

    @invariant()
    def nobody_has_too_much(self):
        counts = self.driven.scheduler.counts()
        assert counts.prefilling + counts.decoding <= SLOTS
        assert self.driven.scheduler.paused_bytes() + self.driven.engine.prefixes.nbytes <= self.host_bytes

    def teardown(self):
        self.driven.finish()
        for number, sequence in self.driven.sequences.items():
            if sequence.state is not TicketState.CANCELLED:
                assert sequence.state is TicketState.DONE
                asked = sequence.request
                answer = self.alone(asked.prompt, MOST, asked.sampling.seed)
                assert self.driven.answer(number) == answer[: asked.max_tokens]
        counts = self.driven.scheduler.counts()
        assert (counts.prefilling, counts.decoding, counts.paused) == (0, 0, 0)
        assert counts.pauses_total <= 3 * self.events  # each that comes, goes or is held up makes few others move

    def living(self):
        gone = (TicketState.DONE, TicketState.CANCELLED)
        return [sequence for sequence in self.driven.sequences.values() if sequence.state not in gone]


class Forgetful(Interleavings):
    """Nothing is kept of what is paused: it is run again."""

    host_bytes = 0


class Reserved(Interleavings):
    """A slot is kept for those in a hurry."""

    reserved = 1


RUNS = settings(max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
def test_a_real_model_s_streams_get_what_they_get_alone(tmp_path):
    with imported(GgufSource(smollm2()), tmp_path / "bundle", slots=SLOTS + 1) as runner:

        class Real(Interleavings):
            alone = staticmethod(cache(partial(continued, runner)))
            host_bytes = 64 << 20

        Real.runner = staticmethod(lambda: runner)
        Real.TestCase.settings = settings(RUNS, max_examples=3, stateful_step_count=25)
        Real.TestCase().runTest()


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Interleavings, Forgetful, Reserved])
def test_each_stream_gets_what_it_gets_alone(machine):
    case = machine.TestCase
    case.settings = RUNS
    case().runTest()
