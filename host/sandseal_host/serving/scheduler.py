"""The one rule of urgency: every request has a virtual deadline, and the earliest is served first.

Virtual deadline = virtual arrival + the class's target. A request's own deadline decides expiry and admission, and
the order within its class. Requests of a lower class that are already late take at most a tenth of the rows while a
higher class waits. Reserved instances run nothing less urgent than their class.

Pure: times come in as arguments (seconds on any monotonic clock); no clock, event loop, thread or lock.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.admission import Admission
from sandseal_host.serving.batch import Batch
from sandseal_host.serving.classqueue import ClassQueue
from sandseal_host.serving.cuts import Cut, CutReason, Cuts
from sandseal_host.serving.heap import TicketHeap
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.ticket import Ticket, TicketState

_LATE_SHARE = 10  # late requests of a lower class take at most one row in so many
_NEVER, _AT_ONCE = float("inf"), float("-inf")


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """A scheduler's counts.

    Args:
        requests: waiting.
        rows: waiting.
        waiting: requests, by class.
        running: batches that run.
        batches: cut so far, by reason.
        batch_rows_histogram: batches cut so far, by powers of two of rows.
        batch_rows_sum: rows of all of them.
        refused: requests refused so far, by error code.
        expired: requests whose time ran out while they waited.
        cancelled: requests discarded while they waited.
        run_s: smoothed seconds from cut to done.
    """

    requests: int
    rows: int
    waiting: Mapping[str, int]
    running: int
    batches: Mapping[CutReason, int]
    batch_rows_histogram: Mapping[int, int]
    batch_rows_sum: int
    refused: Mapping[str, int]
    expired: int
    cancelled: int
    run_s: float


class Scheduler:
    """Forms batches out of a bounded queue.

    A batch goes when an instance is free and it is full, or its oldest request has waited `max_delay_s`, or waiting
    longer would break a deadline, or other shapes wait behind it. With every instance busy it simply grows.
    """

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self._queues = make_queues(settings, settings.instances)  # most urgent class first
        self._by_level = {queue.level: queue for queue in self._queues}
        self._waiting: dict[int, Ticket] = {}  # by request id, oldest first
        self._buckets: dict[Hashable, int] = {}  # requests that wait
        self._expiry = TicketHeap()
        self._overdue: list[Ticket] = []  # expired, not yet told
        self._rows = 0
        self._running = 0
        self._order = 0
        self._credit = 0  # rows of others so far; a late row of a lower class costs nine
        self._run_s = 0.0
        self._last_done = _AT_ONCE
        self._cuts = Cuts(settings.max_rows)
        self._admission = Admission(settings)
        self._expired = self._cancelled = 0

    def add(self, ticket: Ticket, now: float) -> None:
        """Queue a ticket.

        Raises:
            RequestInvalid: more rows than a batch takes, none, or an id that waits already.
            DeadlineExpired: nobody wants the answer any more.
            QueueFull: its class's queue is at its bound, and its tenant holds its share of it.
            DeadlineImpossible: at the measured service rate the request would expire before its turn.
        """
        request, waiting = ticket.request, self._waiting
        if request.id in waiting:
            raise RequestInvalid(f"a request with the id {request.id} waits already", id=request.id)
        queue = self._by_level[request.service_class.level]
        self._admission.check(ticket, queue, now)
        self._order += 1
        ticket.order = self._order
        ticket.queued = now
        ticket.state = TicketState.QUEUED
        waiting[request.id] = ticket
        self._buckets[ticket.bucket] = self._buckets.get(ticket.bucket, 0) + 1
        self._rows += request.rows
        queue.enter(ticket, now)
        self._expiry.push(ticket.expires, ticket, len(waiting))

    def next_batch(self, now: float) -> Batch | None:
        """The batch that should start now, or None; it counts as running until `done`."""
        self._sweep(now)
        if not self._waiting:
            return None
        classes = self._startable()
        return self._cut(classes, now) if now >= self._due(classes) else None

    def expire(self, now: float) -> list[Ticket]:
        """Take out and return the tickets whose time ran out."""
        self._sweep(now)
        overdue, self._overdue = self._overdue, []
        return overdue

    def discard(self, request_id: int) -> Ticket | None:
        """Take out a waiting ticket that nobody wants an answer for; None if it does not wait."""
        ticket = self._waiting.get(request_id)
        if ticket is not None:
            self._leave(ticket, TicketState.CANCELLED)
            self._cancelled += 1
        return ticket

    def clear(self) -> list[Ticket]:
        """Take out and return everything that waits."""
        waiting = list(self._waiting)
        return [ticket for request_id in waiting if (ticket := self.discard(request_id))]

    def done(self, batch: Batch, now: float) -> None:
        """Count a batch as ended: its instance is free, its time is measured."""
        self._running -= 1
        self._by_level[batch.lowest].running -= 1
        took, since = now - batch.cut, max(batch.cut, self._last_done)
        self._run_s += (took - self._run_s) / 8 if self._run_s else took
        self._last_done = now
        for ticket in batch.tickets:
            ticket.state = TicketState.DONE
        for level in batch.backlog:
            rows = sum([t.request.rows for t in batch.tickets if t.request.service_class.level == level])
            self._by_level[level].rate.record(rows, now - since)

    def wake_at(self) -> float | None:
        """When `expire` or `next_batch` should be called although nothing else happens; None = never."""
        first = self._expiry.first()
        if self._overdue or first is None:
            return _AT_ONCE if self._overdue else None
        return min(first.expires, self._due(self._startable()))

    @property
    def empty(self) -> bool:
        """Whether nothing waits, and nothing that expired is still to be told."""
        return not (self._waiting or self._overdue)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not (self._waiting or self._running)

    def explain(self) -> tuple[Cut, ...]:
        """The last batches, oldest first: why each was cut."""
        return tuple(self._cuts.last)

    def statistics(self) -> SchedulerStatistics:
        """The counts at this moment."""
        return SchedulerStatistics(
            requests=len(self._waiting),
            rows=self._rows,
            waiting={queue.service_class.name: queue.requests for queue in self._queues},
            running=self._running,
            batches=dict(self._cuts.reasons),
            batch_rows_histogram=self._cuts.sizes(),
            batch_rows_sum=self._cuts.rows,
            refused=dict(self._admission.refused),
            expired=self._expired,
            cancelled=self._cancelled,
            run_s=self._run_s,
        )

    def _sweep(self, now: float) -> None:
        """Move tickets whose time ran out from the queue to the overdue."""
        while (ticket := self._expiry.first()) is not None and ticket.expires <= now:
            self._leave(ticket, TicketState.EXPIRED)
            self._expired += 1
            self._overdue.append(ticket)

    def _leave(self, ticket: Ticket, state: TicketState) -> None:
        request = ticket.request
        ticket.state = state
        del self._waiting[request.id]
        self._rows -= request.rows
        self._by_level[request.service_class.level].leave(ticket)
        others = self._buckets.pop(ticket.bucket) - 1
        if others:
            self._buckets[ticket.bucket] = others

    def _startable(self) -> Sequence[ClassQueue]:
        """The classes that an instance is free for."""
        running = self._running
        for i, queue in enumerate(self._queues):
            if running >= queue.limit:
                return self._queues[:i]
            running -= queue.running
        return self._queues

    def _due(self, classes: Sequence[ClassQueue]) -> float:
        """When what waits of these classes goes, although it is not full."""
        limits = self.settings
        if len(classes) < len(self._queues):  # an instance that is reserved for them has nothing to wait for
            return _AT_ONCE if any(queue.requests for queue in classes) else _NEVER
        if not limits.max_delay_s or self._rows >= limits.max_rows or len(self._buckets) > 1:
            return _AT_ONCE
        oldest, first = next(iter(self._waiting.values())), self._expiry.first()
        delayed = oldest.queued + limits.max_delay_s
        if first is None:
            return delayed
        # Company may cost half of the time that a request has, and must leave twice the time that a run takes.
        left = first.expires - first.queued
        return min(delayed, first.expires - max(left / 2, 2 * self._run_s))

    def _cut(self, classes: Sequence[ClassQueue], now: float) -> Batch:
        """Take the most urgent request, and what fits with it of the next ones in the order of urgency."""
        taken: list[Ticket] = []
        passed: list[tuple[ClassQueue, Ticket]] = []
        room, full, lowest = self.settings.max_rows, False, 0
        reserved = len(classes) < len(self._queues)
        classes = [queue for queue in classes if queue.requests]
        while room and len(passed) < self.settings.window and (queue := self._most_urgent(classes, now)):
            ticket = queue.pop()
            same = not taken or ticket.bucket == taken[0].bucket
            if same and ticket.request.rows <= room:
                self._take(ticket, queue, now)
                taken.append(ticket)
                room -= ticket.request.rows
                if queue.level > lowest:
                    lowest = queue.level
            else:
                full |= same
                passed.append((queue, ticket))
        for queue, ticket in passed:
            queue.restore(ticket)
        reason = CutReason.FULL if full or not room else self._reason(taken, reserved, now)
        return self._batch(taken, self.settings.max_rows - room, reason, lowest, now)

    def _most_urgent(self, classes: Sequence[ClassQueue], now: float) -> ClassQueue | None:
        """The queue whose first request has the earliest virtual deadline and may go."""
        best, earliest, higher_waits = None, _NEVER, False
        for queue in classes:
            if not queue.requests:
                continue
            head = queue.first()
            if head is not None and head.virtual_deadline < earliest:
                held = higher_waits and head.virtual_deadline < now
                if not held or self._credit >= (_LATE_SHARE - 1) * head.request.rows:
                    best, earliest = queue, head.virtual_deadline
            higher_waits = True
        return best

    def _take(self, ticket: Ticket, queue: ClassQueue, now: float) -> None:
        late = ticket.virtual_deadline < now
        rows, cost = ticket.request.rows, _LATE_SHARE - 1
        if late and any(q.requests for q in self._queues if q.level < queue.level):
            self._credit -= cost * rows
        else:
            self._credit = min(self._credit + rows, cost * self.settings.max_rows)
        self._leave(ticket, TicketState.RUNNING)

    def _reason(self, taken: list[Ticket], reserved: bool, now: float) -> CutReason:
        """Why a batch went that is not full."""
        if len(self._buckets) > (taken[0].bucket in self._buckets):
            return CutReason.BUCKET
        if not self.settings.max_delay_s or reserved:
            return CutReason.IDLE
        delayed = min([ticket.queued for ticket in taken]) + self.settings.max_delay_s
        return CutReason.DELAY if delayed <= now else CutReason.DEADLINE

    def _batch(self, taken: list[Ticket], rows: int, reason: CutReason, lowest: int, now: float) -> Batch:
        self._running += 1
        self._by_level[lowest].running += 1
        self._cuts.record(Cut(reason, len(taken), rows, now - min([ticket.queued for ticket in taken])))
        backlog = frozenset([queue.level for queue in self._queues if queue.requests])
        return Batch(tuple(taken), rows, reason, now, lowest, backlog)


def make_queues(settings: SchedulerSettings, instances: int) -> list[ClassQueue]:
    """A queue for each class, the most urgent first; those below may not have the instances reserved for it."""
    queues, limit = [], instances
    for service_class in sorted(settings.classes.values(), key=lambda c: c.level):
        queues.append(ClassQueue(service_class, limit, settings.max_requests, settings.weights))
        limit -= service_class.reserved
    return queues
