"""The waiting requests of one service class, most urgent first."""

from collections.abc import Mapping

from sandseal_host.serving.heap import TicketHeap
from sandseal_host.serving.rate import ServiceRate
from sandseal_host.serving.shares import Shares
from sandseal_host.serving.ticket import Ticket


class ClassQueue(TicketHeap):
    """One class's queue, its tenants' shares and its measured service rate.

    Args:
        level: the class's level; 1 is the most urgent.
        weights: tenants' weights.
    """

    __slots__ = ("_shares", "level", "rate", "requests", "rows")

    def __init__(self, level: int, weights: Mapping[str, float]) -> None:
        super().__init__()
        self.level = level
        self.rate = ServiceRate()
        self.requests = 0
        self.rows = 0
        self._shares = Shares(weights, self.rate)

    def enter(self, ticket: Ticket, now: float) -> None:
        """Stamp a ticket's virtual deadline and queue it.

        A request's own deadline brings it forward within its class, but never before its virtual arrival: so it
        passes neither another class nor a tenant with less of a backlog.
        """
        request = ticket.request
        arrival = self._shares.enter(request.tenant, request.rows, request.arrival, now)
        ticket.virtual_deadline = ticket.urgency = arrival + request.service_class.target_s
        if request.deadline < ticket.urgency:
            ticket.urgency = max(arrival, request.deadline)
        self.requests += 1
        self.rows += request.rows
        self.push(ticket.urgency, ticket, self.requests)

    def restore(self, ticket: Ticket) -> None:
        """Put back a ticket that `pop` gave and that waits on."""
        self.push(ticket.urgency, ticket, self.requests)

    def leave(self, ticket: Ticket) -> None:
        """Count a ticket as waiting no more."""
        request = ticket.request
        self.requests -= 1
        self.rows -= request.rows
        self._shares.leave(request.tenant, request.rows)

    def predicted_wait(self, tenant: str) -> float:
        """Seconds until a new request of the tenant would run, at the measured rate; 0 while nothing was measured."""
        return self._shares.ahead(tenant, self.rows) / self.rate.per_second
