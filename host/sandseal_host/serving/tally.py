"""What a model answered, and how long each part of the way took."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Served:
    """A model's account since it was loaded.

    Args:
        requests: answered.
        rows: of those.
        failed: requests that were refused, expired or failed.
        queue_s, run_s: seconds of the answered requests, each of a batch counting all of its run.
        pre_s, post_s: seconds that they spent in the stages.
        last: when a batch ended last, in seconds since 1970; 0 = never.
        batches: by rows: how many ran, and their seconds.
        resident: by device: bytes that loading took.
        hits, hits_s: of the requests, those whose answer was kept from before, and the seconds of looking for it.
        misses, misses_s: those whose answer was looked for in vain.
    """

    requests: int
    rows: int
    failed: int
    queue_s: float
    run_s: float
    pre_s: float
    post_s: float
    last: float
    batches: Mapping[int, tuple[int, float]]
    resident: Mapping[str, int]
    hits: int = 0
    hits_s: float = 0.0
    misses: int = 0
    misses_s: float = 0.0


class Tally:
    """The same as it is counted, a batch at a time; touched by the event loop alone."""

    __slots__ = ("batches", "failed", "last", "queue_s", "requests", "rows", "run_s")

    def __init__(self) -> None:
        self.requests = self.rows = self.failed = 0
        self.queue_s = self.run_s = self.last = 0.0
        self.batches: dict[int, tuple[int, float]] = {}

    def batch(self, rows: int, run_s: float, now: float) -> None:
        """Count a batch that ended now."""
        count, seconds = self.batches.get(rows, (0, 0.0))
        self.batches[rows] = count + 1, seconds + run_s
        self.last = now

    def answered(self, rows: int, queue_s: float, run_s: float) -> None:
        """Count an answer."""
        self.requests += 1
        self.rows += rows
        self.queue_s += queue_s
        self.run_s += run_s
