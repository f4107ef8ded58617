"""The waiting requests of one service class, most urgent first."""

from collections.abc import Mapping

from sandseal_host.serving.heap import TicketHeap
from sandseal_host.serving.rate import ServiceRate
from sandseal_host.serving.request import ServiceClass
from sandseal_host.serving.shares import Shares
from sandseal_host.serving.ticket import Ticket


class ClassQueue(TicketHeap):
    """One class's queue, its tenants' shares and its measured service rate.

    Args:
        service_class: of all its requests.
        limit: how many batches of this class and those below it may run; the other instances are reserved.
        max_requests: the most that wait, where the class says nothing else.
        weights: tenants' weights.
    """

    __slots__ = (
        "_shares", "expires_s", "level", "limit", "max_requests", "rate", "requests", "rows", "running",
        "service_class",
    )  # fmt: skip

    def __init__(
        self, service_class: ServiceClass, limit: int, max_requests: int, weights: Mapping[str, float]
    ) -> None:
        super().__init__()
        self.max_requests = max_requests if service_class.max_requests is None else service_class.max_requests
        self.service_class = service_class
        self.level = service_class.level  # 1 is the most urgent
        self.expires_s = service_class.expires_s
        self.limit = limit
        self.rate = ServiceRate()
        self.requests = 0
        self.rows = 0
        self.running = 0  # batches that hold nothing less urgent
        self._shares = Shares(weights, self.rate)

    def enter(self, ticket: Ticket, now: float) -> None:
        """Stamp a ticket's virtual deadline and queue it.

        A request's own deadline brings it forward within its class, but never before its virtual arrival: so it
        passes neither another class nor a tenant with less of a backlog.
        """
        request = ticket.request
        arrival = self._shares.enter(request.tenant, request.rows, request.arrival, now)
        ticket.virtual_deadline = ticket.urgency = arrival + self.service_class.target_s
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

    def has_share_left(self, tenant: str, rows: int) -> bool:
        """Whether a tenant that adds `rows` holds no more of the queue than its share: floods fill only their own."""
        return self._shares.allow(tenant, rows, self.rows)
