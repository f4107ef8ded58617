"""A batch: which requests run together, whose rows are where, and why it was cut."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sandseal_host.serving.ticket import Ticket


class CutReason(StrEnum):
    """Why a batch went when it did."""

    FULL = "full"  # no room for the next request of its bucket
    DELAY = "delay"  # its oldest request had waited max_delay_us
    DEADLINE = "deadline"  # waiting longer would have broken a deadline in it
    BUCKET = "bucket"  # what else waited has other shapes
    IDLE = "idle"  # an instance was free, and nothing is gained by waiting


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one bucket that run together.

    Args:
        tickets: in the order of their rows.
        rows: how many there are in all.
        reason: why the batch was cut.
        cut: seconds on the monotonic clock.
        backlog: levels of the classes that still had requests waiting after the cut.
    """

    tickets: tuple[Ticket, ...]
    rows: int
    reason: CutReason
    cut: float
    backlog: frozenset[int] = frozenset()

    def ranges(self) -> Iterator[tuple[Ticket, range]]:
        """Each ticket with the batch's rows that are its own."""
        at = 0
        for ticket in self.tickets:
            yield ticket, range(at, at := at + ticket.request.rows)


@dataclass(frozen=True, slots=True)
class Cut:
    """One line of `Scheduler.explain()`: why a batch was cut, its size, and how long its oldest had waited."""

    reason: CutReason
    requests: int
    rows: int
    waited_s: float
