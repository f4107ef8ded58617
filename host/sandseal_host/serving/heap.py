"""Waiting tickets in the order of a time."""

from heapq import heapify, heappop, heappush

from sandseal_host.serving.ticket import Ticket, TicketState

_QUEUED = TicketState.QUEUED
_SLACK = 64


class TicketHeap:
    """Tickets by time, then by order of arrival; add and pop in O(log n).

    Tickets that no longer wait stay until they come up, or until they are more than half: so leaving costs nothing,
    and a served request is not kept in memory until its time would have come.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Ticket]] = []

    def push(self, time: float, ticket: Ticket, waiting: int) -> None:
        """Add a ticket at `time`; `waiting` is how many tickets of this heap wait at present."""
        heappush(self._entries, (time, ticket.order, ticket))
        if len(self._entries) > 2 * waiting + _SLACK:
            self._entries = [entry for entry in self._entries if entry[2].state is _QUEUED]
            heapify(self._entries)

    def first(self) -> Ticket | None:
        """The waiting ticket with the earliest time."""
        entries = self._entries
        while entries:
            ticket = entries[0][2]
            if ticket.state is _QUEUED:
                return ticket
            heappop(entries)
        return None

    def pop(self) -> Ticket:
        """Take out what `first` showed."""
        return heappop(self._entries)[2]
