"""Which settings are tried, and which of them is chosen."""

import pytest

from sandseal_host.errors import HostError
from sandseal_host.optimisation import Optimisation
from sandseal_host.tuning.candidate import Candidate, Goal, Outcome, Search, best
from sandseal_signing.manifest import Batching

LEVELS = (Optimisation.EXTENDED, Optimisation.BASIC, Optimisation.NONE)
PLAIN = Candidate(1, 1, 8, 0)
OTHER = Candidate(2, 1, 8, 0)


def outcome(p99_ms: float = 10, in_time: float = 1.0, rows_s: float = 100) -> Outcome:
    return Outcome(1.0, p99_ms, in_time, rows_s)


@pytest.mark.parametrize(
    ("goal", "plain", "other", "chosen"),
    [
        (Goal.LATENCY, outcome(p99_ms=10), outcome(p99_ms=9), OTHER),
        (Goal.LATENCY, outcome(p99_ms=10), outcome(p99_ms=9.8), PLAIN),
        (Goal.LATENCY, outcome(p99_ms=10, rows_s=1), outcome(p99_ms=20, rows_s=999), PLAIN),
        (Goal.LATENCY, outcome(in_time=0.9, p99_ms=1), outcome(in_time=0.99, p99_ms=50), OTHER),
        (Goal.THROUGHPUT, outcome(rows_s=100), outcome(rows_s=120), OTHER),
        (Goal.THROUGHPUT, outcome(rows_s=100), outcome(rows_s=103), PLAIN),
        (Goal.THROUGHPUT, outcome(in_time=1.0), outcome(in_time=0.5, rows_s=999), PLAIN),
    ],
)
def test_the_choice(goal: Goal, plain: Outcome, other: Outcome, chosen: Candidate) -> None:
    assert best([(PLAIN, plain), (OTHER, other)], goal)[0] is chosen


def test_no_choice() -> None:
    with pytest.raises(HostError):
        best([], Goal.LATENCY)


def search(cores: int, signed: Batching, scores: dict[Candidate, float]) -> Search:
    """A finished search in which throughput is as `scores` say, else 100."""
    made = Search(cores, signed, Goal.THROUGHPUT)
    for candidate in made.candidates():
        made.note(candidate, outcome(rows_s=scores.get(candidate, 100)))
    return made


def test_each_dimension_is_varied_from_the_best_of_the_last() -> None:
    signed = Batching(4, 1000)
    made = search(4, signed, {Candidate(2, 1, 4, 0): 200, Candidate(2, 2, 4, 0): 300, Candidate(2, 2, 2, 0): 400})
    assert [candidate for candidate, _ in made.trials] == [
        Candidate(1, 1, 4, 0),
        *(Candidate(threads, 1, 4, 0) for threads in (2, 4)),
        Candidate(2, 2, 4, 0),  # four instances of two threads each would be more than there are cores
        *(Candidate(2, 2, rows, 0) for rows in (2, 1)),
        *(Candidate(2, 2, 2, us) for us in (200, 1000)),  # 5 ms are not signed for
        *(Candidate(2, 2, 2, 0, level) for level in LEVELS),
    ]
    assert made.best[0] == Candidate(2, 2, 2, 0)


def test_the_grid_is_every_candidate() -> None:
    grid = list(Search(2, Batching(4, 200), Goal.LATENCY, rows=2).grid())
    assert grid[0] == Candidate(1, 1, 4, 0)
    shares = {(1, 1), (1, 2), (2, 1)}
    assert {(each.threads, each.instances) for each in grid} == shares
    assert len(grid) == len({*grid}) == len(shares) * len((4, 2)) * len((0, 200)) * len(Optimisation)


def test_batches_must_hold_the_largest_request() -> None:
    made = Search(1, Batching(8), Goal.LATENCY, rows=3)
    for candidate in made.candidates():
        made.note(candidate, outcome())
    assert {candidate.max_rows for candidate, _ in made.trials} == {8, 4}


def test_a_model_without_batches_on_one_core_has_only_its_graph_to_try() -> None:
    made = search(1, Batching(), {Candidate(1, 1, 1, 0, Optimisation.BASIC): 200})
    assert [candidate for candidate, _ in made.trials] == [
        Candidate(1, 1, 1, 0),
        *(Candidate(1, 1, 1, 0, level) for level in LEVELS),
    ]
    assert made.best[0].optimisation is Optimisation.BASIC
