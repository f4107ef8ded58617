"""Runs that fail: what one row caused it alone pays for, what nobody caused all pay for."""

import pytest

from sandseal_host.errors import MemoryExhausted, ModelFailed
from sandseal_host.serving.request import BATCH, REALTIME
from support.decoders import decoder, opened
from support.generation import Driven, alone, prompt_of

POISON = 25  # a position that no other row comes to in the same run


@pytest.fixture
def runner():
    with opened(decoder(), slots=4) as runner:
        yield runner


def fail_at_position(monkeypatch, runner, error):
    """Let every run fail that has a row at the position; how many did is counted."""
    decode, prefill, failed = runner.decode, runner.prefill, []

    def check(starts):
        if POISON in starts:
            failed.append(starts)
            raise error("the run failed: poison")

    def decoding(tokens, lengths):
        check(lengths)
        return decode(tokens, lengths)

    def prefilling(slot, ids, start):
        check([start] if len(ids) == 1 else [])
        return prefill(slot, ids, start)

    monkeypatch.setattr(runner, "decode", decoding)
    monkeypatch.setattr(runner, "prefill", prefilling)
    return failed


def join_three(engine):
    for number, length in enumerate((3, 20, 40)):
        engine.join(number, prompt_of(length, number), max_tokens=12)


@pytest.mark.parametrize("among", [3, 1])
def test_a_row_that_fails_a_run_fails_alone(monkeypatch, runner, among):
    failed = fail_at_position(monkeypatch, runner, ModelFailed)
    driven = Driven(runner)
    if among == 3:
        join_three(driven)
    else:
        driven.join(1, prompt_of(20, 1), max_tokens=12)
    driven.finish()
    assert len(failed) == (2 if among == 3 else 1)  # in the batch, and by itself
    assert driven.engine.tally.failed == 1
    assert driven.answer(1) == alone(prompt_of(20, 1), 12)[:6]
    if among == 3:
        assert driven.answer(0) == alone(prompt_of(3, 0), 12)
        assert driven.answer(2) == alone(prompt_of(40, 2), 12)


def test_a_run_without_memory_is_not_tried_again(monkeypatch, runner):
    failed = fail_at_position(monkeypatch, runner, MemoryExhausted)
    driven = Driven(runner)
    join_three(driven)
    driven.finish()
    assert len(failed) == 1
    assert driven.engine.tally.failed == 3


@pytest.mark.parametrize("kept", ["a pause", "a prompt"])
def test_what_is_kept_is_given_back_when_others_need_the_memory(runner, kept):
    driven = Driven(runner, slots=1)
    driven.join(1, prompt_of(40, 1), max_tokens=12, service_class=BATCH)
    if kept == "a pause":
        while len(driven.answer(1)) < 3:
            driven.step()
        driven.join(2, prompt_of(5, 2), max_tokens=12, service_class=REALTIME)
        while not driven.scheduler.paused_bytes():
            driven.step()
    else:
        driven.finish()
    assert driven.scheduler.paused_bytes() + driven.engine.prefixes.nbytes > 0
    driven.spare = -1e9
    driven.clock.now += 2  # seconds, between two looks
    driven.join(3, prompt_of(5, 3), max_tokens=2, service_class=REALTIME)
    driven.step()
    assert driven.scheduler.paused_bytes() + driven.engine.prefixes.nbytes == 0
    driven.finish()
    assert driven.answer(1) == alone(prompt_of(40, 1), 12)
    assert driven.engine.meter.recomputed == (kept == "a pause")


def test_held_rows_do_not_get_on_when_a_run_is_repeated(monkeypatch, runner):
    fail_at_position(monkeypatch, runner, ModelFailed)
    driven = Driven(runner)
    join_three(driven)
    while len(driven.answer(1)) < 5:
        driven.step()
    driven.sequences[2].behind = True
    held = driven.answer(2)
    while driven.engine.tally.failed == 0:
        driven.step()
    assert driven.answer(2) == held
    driven.finish()
    assert driven.answer(2) == alone(prompt_of(40, 2), 12)
