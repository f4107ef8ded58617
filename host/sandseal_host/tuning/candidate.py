"""Settings to try, one dimension after the other, and which of those tried is the best for a goal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Any, ClassVar

from sandseal_host.errors import HostError
from sandseal_host.optimisation import Optimisation
from sandseal_signing.manifest import Batching

_DELAYS_US = (0, 200, 1000, 5000)


class Goal(StrEnum):
    """What is to be best."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings of one model.

    Args:
        threads: that one run uses.
        instances: batches that run at once.
        max_rows: of a batch.
        max_delay_us: how long the oldest request waits for others while an instance is free.
        optimisation: of the graph.
    """

    threads: int
    instances: int
    max_rows: int
    max_delay_us: int
    optimisation: Optimisation = Optimisation.ALL

    COLUMNS: ClassVar = ("threads", "instances", "rows", "delay us", "optimisation")

    def cells(self) -> tuple[str, ...]:
        """What stands in a table's columns."""
        return str(self.threads), str(self.instances), str(self.max_rows), str(self.max_delay_us), self.optimisation


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a candidate came to.

    Args:
        p50_ms, p99_ms: from arrival to answer, at the recorded times; of all requests.
        in_time: the part of those requests that were answered within their class's target.
        rows_s: rows a second when there is always something to do.
    """

    p50_ms: float
    p99_ms: float
    in_time: float
    rows_s: float

    COLUMNS: ClassVar = ("p50 ms", "p99 ms", "in time", "rows/s")

    def cells(self) -> tuple[str, ...]:
        """What stands in a table's columns."""
        return f"{self.p50_ms:.2f}", f"{self.p99_ms:.2f}", f"{self.in_time:.1%}", f"{self.rows_s:.0f}"


Trial = tuple[Candidate, Outcome]


def best(trials: Iterable[Trial], goal: Goal) -> Trial:
    """The best trial: first the one that keeps the most deadlines, then by the goal.

    Differences of under a twentieth count as none, and of equals the first is taken: plain settings are tried first.
    """
    chosen: Trial | None = None
    for trial in trials:
        if chosen is None or _better(trial[1], chosen[1], goal):
            chosen = trial
    if chosen is None:
        raise HostError("there are no trials to choose from")
    return chosen


def _better(one: Outcome, other: Outcome, goal: Goal) -> bool:
    if abs(one.in_time - other.in_time) > 0.005:
        return one.in_time > other.in_time
    if goal is Goal.LATENCY:
        return one.p99_ms < 0.95 * other.p99_ms
    return one.rows_s > 1.05 * other.rows_s


class Search:
    """Which candidate comes next: threads, instances, rows, delay, optimisation, each for the best of the last.

    Args:
        cores: that may be used.
        signed: what the bundle is signed for.
        goal: what is to be best.
        rows: of the largest request that must be served.
    """

    def __init__(self, cores: int, signed: Batching, goal: Goal, rows: int = 1) -> None:
        self._cores, self._goal = cores, goal
        self._dimensions: Mapping[str, Sequence[Any]] = {
            "threads": _powers(cores),
            "instances": _powers(cores),
            "max_rows": [n for n in reversed(_powers(signed.max_rows)) if n >= rows],
            "max_delay_us": [us for us in _DELAYS_US if us <= signed.max_delay_us],
            "optimisation": [*reversed(Optimisation)],
        }
        self.trials: list[Trial] = []

    def candidates(self) -> Iterator[Candidate]:
        """Some candidates; `note` must be called with the outcome of each before the next is asked for."""
        yield next(self.grid())
        for dimension, values in self._dimensions.items():
            yield from self._vary(dimension, values)

    def grid(self) -> Iterator[Candidate]:
        """Every candidate, plain settings first; far more than `candidates`, which knows only those along its way."""
        for values in product(*self._dimensions.values()):
            candidate = Candidate(**dict(zip(self._dimensions, values, strict=True)))
            if candidate.threads * candidate.instances <= self._cores:
                yield candidate

    def note(self, candidate: Candidate, outcome: Outcome) -> None:
        """Take down what a candidate came to."""
        self.trials.append((candidate, outcome))

    @property
    def best(self) -> Trial:
        """The best so far."""
        return best(self.trials, self._goal)

    def _vary(self, dimension: str, values: Sequence[Any]) -> Iterator[Candidate]:
        base, tried = self.best[0], {candidate for candidate, _ in self.trials}
        for value in values:
            candidate = replace(base, **{dimension: value})
            if candidate not in tried and candidate.threads * candidate.instances <= self._cores:
                yield candidate


def _powers(most: int) -> list[int]:
    """1, 2, 4 ... and `most`."""
    return [*(1 << n for n in range(most.bit_length()) if 1 << n < most), most]
