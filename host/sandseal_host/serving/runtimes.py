"""What runs cost, by kind of batch: decides which batches are short enough for the event loop's own thread."""

from collections.abc import Hashable

from sandseal_host.serving.batch import Batch

_FORGET = 1 / 16
_FELT_S = 10e-3
_MAX_KINDS = 1024


class RunTimes:
    """Processor seconds of runs, by bucket and power of two of rows.

    Processor time of the calling thread, so that waiting for the interpreter lock or for a core does not count as
    the model's own time. A smoothed mean, so that the noise of a busy machine, whose hypervisor takes a millisecond
    now and then, changes little; but one run that everybody would have felt counts at once, and keeps its kind away
    from the loop for long.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[Hashable, int], float] = {}

    def seconds(self, batch: Batch) -> float:
        """What a run like this one cost; infinite when none was measured."""
        return self._seconds.get(_kind(batch), float("inf"))

    def record(self, batch: Batch, seconds: float) -> None:
        """Count a run."""
        kind = _kind(batch)
        before = self._seconds.get(kind, seconds)
        if len(self._seconds) >= _MAX_KINDS:
            self._seconds.clear()
        self._seconds[kind] = seconds if seconds > _FELT_S else before + (seconds - before) * _FORGET


def _kind(batch: Batch) -> tuple[Hashable, int]:
    return batch.tickets[0].bucket, batch.rows.bit_length()
