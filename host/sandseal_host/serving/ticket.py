"""What changes about a request while it waits and runs: its state, its urgency, its times."""

from collections.abc import Hashable
from enum import Enum, auto
from typing import Any

from sandseal_host.serving.request import Request


class TicketState(Enum):
    """Where a request is between the queue and its answer."""

    PENDING = auto()
    QUEUED = auto()
    RUNNING = auto()
    PREFILLING = auto()  # these three only of generations
    DECODING = auto()
    PAUSED = auto()
    DONE = auto()
    EXPIRED = auto()
    CANCELLED = auto()


ENDED = (TicketState.DONE, TicketState.EXPIRED, TicketState.CANCELLED)


class Ticket:
    """One request's place in a lane; owned by the lane, stamped by its scheduler when it is queued.

    Args:
        request: what is asked.
        bucket: tickets of equal buckets may share a batch.
        answer: whatever the owner answers through; the scheduler never looks at it.
    """

    __slots__ = (
        "answer",
        "bucket",
        "expires",
        "order",
        "queued",
        "request",
        "state",
        "urgency",
        "virtual_deadline",
    )

    order: int  # of arrival
    queued: float  # when
    expires: float  # when it leaves the queue without an answer
    virtual_deadline: float  # compares classes
    urgency: float  # compares requests of one class

    def __init__(self, request: Request, bucket: Hashable, answer: Any = None) -> None:
        self.request = request
        self.bucket = bucket
        self.answer = answer
        self.state = TicketState.PENDING

    def __repr__(self) -> str:
        return f"<Ticket {self.request.id} {self.state.name.lower()} rows={self.request.rows}>"
