"""How quickly tokens come."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_INF = float("inf")
_FIRST_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, _INF)
_GAP_S = (0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, _INF)


class Histogram:
    """Counts seconds by upper bounds.

    Args:
        bounds: growing, the last one infinite.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self.sum = bounds, [0] * len(bounds), 0.0

    def record(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def table(self) -> Mapping[float, int]:
        """How many were at most the bound, and more than the one before."""
        return dict(zip(self._bounds, self._counts, strict=True))


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """A meter's counts.

    Args:
        tokens_total: chosen.
        prompt_tokens_total: run.
        slow_readers_total: streams that were ended because nobody read them.
        recomputed_total: paused sequences whose keys and values were not kept.
        first_s_histogram, first_s_sum: seconds from arrival to the first token.
        gap_s_histogram, gap_s_sum: seconds between two tokens of a stream.
    """

    tokens_total: int
    prompt_tokens_total: int
    slow_readers_total: int
    recomputed_total: int
    first_s_histogram: Mapping[float, int]
    first_s_sum: float
    gap_s_histogram: Mapping[float, int]
    gap_s_sum: float


class Meter:
    """The same as it is counted, on the lane's thread."""

    def __init__(self) -> None:
        self.tokens = self.prompt_tokens = self.slow_readers = self.recomputed = 0
        self.first, self.gap = Histogram(_FIRST_S), Histogram(_GAP_S)

    def token(self, arrival: float, last: float, now: float) -> None:
        """Count a token that was chosen now.

        Args:
            arrival: of its request.
            last: when the token before it was chosen; 0 for the first one.
        """
        self.tokens += 1
        if last:
            self.gap.record(now - last)
        else:
            self.first.record(now - arrival)

    def counts(self) -> TokenCounts:
        """The counts at this moment."""
        return TokenCounts(
            self.tokens,
            self.prompt_tokens,
            self.slow_readers,
            self.recomputed,
            self.first.table(),
            self.first.sum,
            self.gap.table(),
            self.gap.sum,
        )
