"""A batch: which requests run together."""

from sandseal_host.serving.cuts import CutReason
from sandseal_host.serving.ticket import Ticket
from sandseal_host.tensors import record


@record
class Batch:
    """Requests of one bucket that run together.

    Args:
        tickets: in the order of their rows.
        rows: how many there are in all.
        reason: why the batch was cut.
        cut: seconds on the monotonic clock.
        lowest: level of the least urgent class in it.
        backlog: levels of the classes that still had requests waiting after the cut.
    """

    tickets: tuple[Ticket, ...]
    rows: int
    reason: CutReason
    cut: float
    lowest: int
    backlog: frozenset[int] = frozenset()

    @property
    def latest_deadline(self) -> float:
        """When nobody in it wants an answer any more, in seconds on the monotonic clock."""
        return max([ticket.request.deadline for ticket in self.tickets])
