"""What was cut so far: the last batches with their reasons, and counts by reason and by size."""

from collections import Counter, deque
from collections.abc import Mapping
from enum import StrEnum

from sandseal_host.tensors import record

_REMEMBERED = 64


class CutReason(StrEnum):
    """Why a batch went when it did."""

    FULL = "full"  # no room for the next request of its bucket
    DELAY = "delay"  # its oldest request had waited max_delay_us
    DEADLINE = "deadline"  # waiting longer would have broken a deadline in it
    BUCKET = "bucket"  # what else waited has other shapes
    IDLE = "idle"  # an instance was free, and nothing is gained by waiting


@record
class Cut:
    """One line of `Scheduler.explain()`: why a batch was cut, its size, and how long its oldest had waited."""

    reason: CutReason
    requests: int
    rows: int
    waited_s: float


@record
class Explanation:
    """What a queue is doing, and why.

    Args:
        waiting: requests, by class.
        running: batches that run.
        cuts: the last batches, oldest first.
    """

    waiting: Mapping[str, int]
    running: int
    cuts: tuple[Cut, ...]


class Cuts:
    """Counts the batches of a scheduler.

    Args:
        max_rows: of a batch.
    """

    def __init__(self, max_rows: int) -> None:
        self.last: deque[Cut] = deque(maxlen=_REMEMBERED)
        self.reasons: Counter[CutReason] = Counter()
        self.rows = 0
        self._max_rows = max_rows
        self._sizes = [0] * ((max_rows - 1).bit_length() + 1)  # by powers of two

    def record(self, cut: Cut) -> None:
        """Count a batch."""
        self.last.append(cut)
        self.reasons[cut.reason] += 1
        self.rows += cut.rows
        self._sizes[(cut.rows - 1).bit_length()] += 1

    def sizes(self) -> Mapping[int, int]:
        """How many batches had at most so many rows, and more than the bound before."""
        return {min(1 << i, self._max_rows): count for i, count in enumerate(self._sizes)}
