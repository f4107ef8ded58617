"""One figure of a suite, and the interleaving of its two sides."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A measured value against its goal.

    Args:
        value: None where it could not be measured here, as `detail` says why.
        goal: what the value must reach (`at_least`) or stay within.
        detail: both sides in plain units, for people.
    """

    name: str
    value: float | None
    unit: str
    goal: float
    at_least: bool
    detail: str

    @classmethod
    def not_measured(cls, name: str, why: str) -> "Figure":
        """What stands in the place of a figure that needs what is not here."""
        return cls(name, None, "", 0.0, True, why)

    @property
    def met(self) -> bool:
        """Whether the goal is reached; what was not measured misses none."""
        if self.value is None:
            return True
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def line(self) -> str:
        """The figure for people."""
        if self.value is None:
            return f"{self.name:<44} NOT MEASURED  {self.detail}"
        sign = ">=" if self.at_least else "<="
        word = "met" if self.met else "MISSED"
        return f"{self.name:<44} {self.value:>8.2f} {self.unit:<8} goal {sign} {self.goal:g}  {word:<6}  {self.detail}"

    def record(self) -> dict[str, Any]:
        """The figure for machines."""
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True)
class Measure:
    """A figure that can be run: its name and the function that yields it (or several)."""

    name: str
    run: Callable[[], Iterator[Figure]]


def interleave(rounds: int, *sides: Callable[[], float]) -> list[float]:
    """Run the sides in turn, `rounds` times; the median of each."""
    results: list[list[float]] = [[] for _ in sides]
    for turn in range(rounds):
        order = list(enumerate(sides))
        for index, side in order if turn % 2 == 0 else reversed(order):
            results[index].append(side())
    return [median(values) for values in results]
