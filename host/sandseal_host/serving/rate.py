"""How fast a backlog is served: the measure behind admission and tenants' shares."""

_FORGET = 1 / 16  # weight of the newest batch; some 16 batches are remembered


class ServiceRate:
    """Rows per second while there is a backlog; the newest batches count most.

    `per_second` is infinite until a backlog was measured, so that nothing is refused on a guess.
    """

    __slots__ = ("_rows", "_seconds", "per_second")

    def __init__(self) -> None:
        self._rows = 0.0
        self._seconds = 0.0
        self.per_second = float("inf")

    def record(self, rows: int, seconds: float) -> None:
        """Count a batch: `rows` of this class were served in the `seconds` since the batch before it."""
        self._rows += rows - self._rows * _FORGET
        self._seconds += seconds - self._seconds * _FORGET
        if self._rows and self._seconds:
            self.per_second = self._rows / self._seconds
