"""Who runs when, as tables of times; a decoder that takes 1 ms for a prompt token and 10 ms for a decode of a row."""

from dataclasses import dataclass, replace

import pytest

from sandseal_host.errors import QueueFull, RequestInvalid
from sandseal_host.serving.generation.scheduler import Decode, GenerationScheduler, Prefill
from sandseal_host.serving.generation.seats import Restore, Save
from sandseal_host.serving.generation.sequence import Sequence
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME, STANDARD
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.ticket import TicketState
from support.generation import request

TOKEN_S, ROW_S, MORE_S = 0.001, 0.01, 0.002  # a decode of more rows takes a little longer for each


@dataclass
class Copy:
    """Keys and values that a test keeps none of."""

    length: int
    nbytes: int = 0


class Timeline:
    """A scheduler whose plans take their time, and nothing else."""

    def __init__(self, *, queue: SchedulerSettings | None = None, **settings) -> None:
        bounds = {"slots": 2, "context": 1000, "chunk": 20, "queue": queue or SchedulerSettings(), **settings}
        self.scheduler = GenerationScheduler(GenerationSettings(**bounds))
        self.now = 0.0
        self.sequences: dict[int, Sequence] = {}
        self.times: dict[int, list[float]] = {}  # of each sequence's tokens
        self.runs: list = []

    def add(self, number: int, prompt: int = 10, tokens: int = 5, service_class=STANDARD, **what) -> Sequence:
        asked = request(number, (0,) * prompt, max_tokens=tokens, service_class=service_class, arrival=self.now, **what)
        sequence = Sequence(asked)
        self.scheduler.add(sequence, self.now)
        self.sequences[number], self.times[number] = sequence, []
        return sequence

    def run(self, seconds: float = 1000.0) -> "Timeline":
        """Go on for so long, or until nothing is left."""
        until = self.now + seconds
        while self.now < until and self.step():
            pass
        return self

    def step(self) -> bool:
        step = self.scheduler.plan(self.now)
        for action in step.actions:
            if isinstance(action, Save):
                action.sequence.kv = Copy(action.sequence.length) if action.sequence.length else None
            elif isinstance(action, Restore):
                action.sequence.kv = None
        run = step.run
        if run is None:
            return bool(step.actions)
        self.runs.append(run)
        if isinstance(run, Prefill):
            took = run.tokens * TOKEN_S
            self.now += took
            run.sequence.length += run.tokens
            advanced = [run.sequence] if run.last else []
        else:
            took = ROW_S + len(run.rows) * MORE_S
            self.now += took
            advanced = [sequence for sequence in run.rows if not sequence.held]
            for sequence in advanced:
                sequence.length += 1
        for sequence in advanced:
            self._token(sequence)
        self.scheduler.done(run, took)
        return True

    def _token(self, sequence: Sequence) -> None:
        sequence.tokens.append(0)
        times = self.times[sequence.request.id]
        times.append(self.now)
        if len(times) == sequence.request.max_tokens:
            self.scheduler.end(sequence, self.now)

    def gaps(self, *numbers: int) -> list[float]:
        return [b - a for n in numbers for a, b in zip(self.times[n], self.times[n][1:], strict=False)]

    def decoding(self) -> list[int]:
        return [sequence.request.id for sequence in self.scheduler._seats.rows]

    def states(self) -> dict[int, str]:
        return {number: sequence.state.name.lower() for number, sequence in self.sequences.items()}


def classes(**reserved: int) -> SchedulerSettings:
    return SchedulerSettings(classes={name: replace(c, reserved=reserved.get(name, 0)) for name, c in CLASSES.items()})


def test_one_sequence_is_prefilled_in_chunks_and_then_decoded():
    line = Timeline()
    line.add(1, prompt=50, tokens=3)
    line.run()
    assert [run.tokens if isinstance(run, Prefill) else "decode" for run in line.runs] == [
        20,
        20,
        10,
        "decode",
        "decode",
    ]
    assert line.states() == {1: "done"}


def test_a_long_prompt_leaves_those_that_decode_their_pace():
    line = Timeline()
    line.add(1, prompt=10, tokens=30)
    line.step(), line.step()
    line.add(2, prompt=200, tokens=5)
    line.run()
    kinds = [run.tokens if isinstance(run, Prefill) else "decode" for run in line.runs]
    between = "".join("d" if kind == "decode" else "p" for kind in kinds)
    assert between.startswith("p" + "pd" * 10)
    assert max(line.gaps(1)) <= 20 * TOKEN_S + ROW_S + 2 * MORE_S + 1e-9


def test_short_prompts_share_the_tokens_that_are_run_between_two_decodes():
    line = Timeline(slots=4)
    line.add(1, prompt=10, tokens=30)
    line.run(0.05)
    for number in (2, 3, 4):
        line.add(number, prompt=8, tokens=9)
    before = len(line.runs)
    line.run(0.05)
    assert [run.tokens if isinstance(run, Prefill) else "d" for run in line.runs[before : before + 5]] == [
        8,
        8,
        4,
        "d",
        4,
    ]


def test_who_came_first_has_the_slot_within_a_class_and_a_tenant():
    line = Timeline(slots=1)
    for number in (1, 2, 3):
        line.add(number)
    line.run()
    assert line.times[1][-1] < line.times[2][0]
    assert line.times[2][-1] < line.times[3][0]


def test_an_urgent_one_takes_the_slot_of_one_that_is_not():
    line = Timeline(slots=1)
    slow = line.add(1, tokens=200, service_class=BATCH)
    line.run(0.1)
    got = len(line.times[1])
    line.add(2, tokens=5, service_class=REALTIME)
    line.step(), line.step()
    assert slow.state is TicketState.PAUSED
    line.run()
    assert line.times[2][-1] < line.times[1][got]
    assert len(line.times[1]) == 200


def test_an_urgent_prompt_does_not_wait_for_one_that_is_being_run():
    line = Timeline()
    line.add(1, prompt=900, service_class=BATCH)
    line.run(0.05)
    line.add(2, prompt=10, service_class=REALTIME)
    came = line.now
    line.run()
    assert line.times[2][0] - came <= 0.02 + 10 * TOKEN_S + 1e-9
    assert sum(run.tokens for run in line.runs if isinstance(run, Prefill)) == 910  # and nothing is run twice


def test_an_urgent_prompt_is_run_without_a_break_by_the_tokens_of_others():
    line = Timeline(slots=4)
    for number in (1, 2):
        line.add(number, prompt=15, tokens=100, service_class=BATCH)
    line.run(0.1)
    line.add(3, prompt=70, tokens=5, service_class=REALTIME)
    before = len(line.runs)
    line.run(0.08)
    assert [run.tokens for run in line.runs[before : before + 4]] == [20, 20, 20, 10]


def test_the_rows_of_a_batch_begin_with_the_most_urgent():
    line = Timeline(slots=5)
    for number, service_class in enumerate((BATCH, STANDARD, BATCH, REALTIME, STANDARD)):
        line.add(number, tokens=900, service_class=service_class)
    line.run(1.5)
    assert [line.sequences[number].level for number in line.decoding()] == [1, 2, 2, 3, 3]
    line.scheduler.end(line.sequences[1], line.now)
    assert [line.sequences[number].level for number in line.decoding()] == [1, 2, 3, 3]


@pytest.mark.parametrize("chunk", [20, 128])
@pytest.mark.parametrize("tokens", [60, 400])
def test_urgent_streams_keep_their_pace_under_a_flood_and_the_flood_gets_on(chunk, tokens):
    quiet = Timeline(slots=8)
    flooded = Timeline(slots=8, chunk=chunk)
    for line in (quiet, flooded):
        for number in (1, 2):
            line.add(number, tokens=tokens, service_class=REALTIME)
    for number in range(100, 130):
        flooded.add(number, prompt=300, tokens=50, service_class=BATCH)
    quiet.run()
    flooded.run()
    alone, among = quiet.gaps(1, 2), flooded.gaps(1, 2)
    assert sum(among) / len(among) <= 1.1 * sum(alone) / len(alone)
    assert max(among) <= 16 * TOKEN_S + ROW_S + 8 * MORE_S + 1e-9
    assert all(len(flooded.times[number]) == 50 for number in range(100, 130))


def test_prompts_and_rows_of_a_lower_class_get_on_in_turn_beside_a_higher_one():
    line = Timeline(slots=8)
    for number in range(3):
        line.add(number, tokens=900, service_class=BATCH)
    line.run(0.2)
    line.add(10, tokens=900, service_class=REALTIME)
    line.add(11, prompt=900, tokens=5, service_class=BATCH)
    line.run(8.0)
    runs = [run for run in line.runs if (isinstance(run, Prefill) and run.below) or len(getattr(run, "rows", ())) > 3]
    kinds = "".join("p" if isinstance(run, Prefill) else "d" for run in runs)
    assert len(kinds) > 20
    assert kinds == ("pd" * len(kinds))[: len(kinds)]


def test_a_flood_of_one_tenant_leaves_others_their_share_of_the_slots():
    line = Timeline(slots=4)
    for number in range(20):
        line.add(number, tokens=200, tenant="flood")
    line.run(0.3)
    line.add(100, tokens=50, tenant="other")
    line.add(101, tokens=50, tenant="other")
    line.add(102, tokens=50, tenant="other")
    line.run(0.3)
    assert sum(line.sequences[number].tenant == "other" for number in line.decoding()) == 2
    line.run()
    assert all(len(times) == line.sequences[number].request.max_tokens for number, times in line.times.items())


def test_a_tenant_of_more_weight_has_more_slots():
    line = Timeline(slots=4, queue=SchedulerSettings(weights={"big": 3.0}))
    for number in range(20):
        line.add(number, tokens=200, tenant="flood")
    line.run(0.3)
    for number in range(100, 108):
        line.add(number, tokens=100, tenant="big")
    line.run(0.5)
    assert sum(line.sequences[number].tenant == "big" for number in line.decoding()) == 3


def test_slots_that_are_reserved_are_left_to_their_class():
    line = Timeline(slots=2, queue=classes(realtime=1))
    for number in (1, 2):
        line.add(number, tokens=100, service_class=BATCH)
    line.run(0.2)
    assert line.decoding() == [1]
    line.add(3, tokens=3, service_class=REALTIME)
    line.run(0.1)
    assert line.scheduler.counts().pauses_total == 0
    assert len(line.times[3]) == 3


def test_what_is_late_gets_a_turn_among_the_more_urgent():
    line = Timeline(slots=1)
    line.add(1000, tokens=10, service_class=BATCH)
    while line.now < 80.0:  # more comes than can be answered
        line.add(len(line.sequences), tokens=40, service_class=REALTIME)
        line.run(0.3)
        line.scheduler.overdue(line.now)
    assert 60.0 < line.times[1000][0] < 65.0


def test_one_whose_reader_is_behind_does_not_get_on_and_gives_way():
    line = Timeline(slots=2)
    held = line.add(1, tokens=50)
    line.add(2, tokens=50)
    line.run(0.1)
    held.behind, got = True, len(line.times[1])
    line.run(0.1)
    assert len(line.times[1]) == got
    assert isinstance(line.runs[-1], Decode)
    line.add(3, tokens=5, service_class=BATCH)
    line.step(), line.step()
    assert held.state is TicketState.PAUSED
    line.run()
    assert (line.states(), len(line.times[1])) == ({1: "paused", 2: "done", 3: "done"}, got)
    held.behind = False
    line.run()
    assert len(line.times[1]) == 50


def test_who_waits_too_long_is_taken_out_and_who_runs_when_its_time_is_over():
    line = Timeline(slots=1)
    running = line.add(1, tokens=900, deadline=100.0)
    waiting = line.add(2)
    line.step(), line.step()
    assert line.scheduler.wake_at() == STANDARD.expires_s
    assert line.scheduler.overdue(STANDARD.expires_s) == [waiting]
    assert line.scheduler.overdue(99.0) == []
    assert line.scheduler.overdue(100.0) == [running]
    assert line.scheduler.counts().expired_total == 2
    assert line.scheduler.all() == []


def test_a_queue_has_its_bound_and_an_id_is_there_once():
    line = Timeline(queue=SchedulerSettings(max_requests=2))
    line.add(1), line.add(2)
    with pytest.raises(QueueFull):
        line.add(3)
    with pytest.raises(RequestInvalid, match="waits already"):
        line.add(2)
    assert line.scheduler.counts().waiting == {"realtime": 0, "standard": 2, "batch": 0}
