"""The one rule of urgency: every request has a virtual deadline, and the earliest is served first.

Virtual deadline = virtual arrival + the class's target. A request's own deadline decides expiry and admission, and
the order within its class. Requests of a lower class that are already late take at most a tenth of the rows while a
higher class waits.

Pure: times come in as arguments (seconds on any monotonic clock); no clock, event loop, thread or lock.
"""

from collections import Counter, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.admission import Admission
from sandseal_host.serving.batch import Batch, Cut, CutReason
from sandseal_host.serving.classqueue import ClassQueue
from sandseal_host.serving.heap import TicketHeap
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.ticket import Ticket, TicketState

_LATE_SHARE = 10  # late requests of a lower class take at most one row in so many
_EXPLAINED = 64


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """A scheduler's counts.

    Args:
        requests: waiting.
        rows: waiting.
        running: batches that run.
        batches: cut so far, by reason.
        batched_rows: rows of all of them.
        refused: requests refused so far, by error code.
        expired: requests whose time ran out while they waited.
        cancelled: requests discarded while they waited.
        run_s: smoothed seconds from cut to done.
    """

    requests: int
    rows: int
    running: int
    batches: Mapping[CutReason, int]
    batched_rows: int
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
        self._queues: list[ClassQueue] = []  # most urgent class first
        self._by_level: dict[int, ClassQueue] = {}
        self._waiting: dict[int, Ticket] = {}  # by request id, oldest first
        self._buckets: dict[Hashable, int] = {}  # requests that wait
        self._expiry = TicketHeap()
        self._overdue: list[Ticket] = []  # expired, not yet told
        self._rows = 0
        self._running = 0
        self._order = 0
        self._credit = 0  # rows of others so far; a late row of a lower class costs nine
        self._run_s = 0.0
        self._last_done = float("-inf")
        self._cuts: deque[Cut] = deque(maxlen=_EXPLAINED)
        self._reasons: Counter[CutReason] = Counter()
        self._admission = Admission(settings)
        self._batched_rows = self._expired = self._cancelled = 0

    def add(self, ticket: Ticket, now: float) -> None:
        """Queue a ticket.

        Raises:
            RequestInvalid: more rows than a batch takes, none, or an id that waits already.
            DeadlineExpired: nobody wants the answer any more.
            QueueFull: the queue is at its bound.
            DeadlineImpossible: at the measured service rate the request would expire before its turn.
        """
        request = ticket.request
        if request.id in self._waiting:
            raise RequestInvalid(f"a request with the id {request.id} waits already", id=request.id)
        queue = self._by_level.get(request.service_class.level) or self._open(request.service_class.level)
        self._admission.check(ticket, queue, len(self._waiting), self._rows, now)
        self._order += 1
        ticket.order = self._order
        ticket.queued = now
        ticket.state = TicketState.QUEUED
        self._waiting[request.id] = ticket
        self._buckets[ticket.bucket] = self._buckets.get(ticket.bucket, 0) + 1
        self._rows += request.rows
        queue.enter(ticket, now)
        self._expiry.push(ticket.expires, ticket, len(self._waiting))

    def next_batch(self, now: float) -> Batch | None:
        """The batch that should start now, or None; it counts as running until `done`."""
        self._sweep(now)
        if self._running >= self.settings.instances or not self._waiting or now < self._due():
            return None
        return self._cut(now)

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
        took, since = now - batch.cut, max(batch.cut, self._last_done)
        self._run_s += (took - self._run_s) / 8 if self._run_s else took
        self._last_done = now
        for ticket in batch.tickets:
            ticket.state = TicketState.DONE
        for level in batch.backlog:
            rows = sum(t.request.rows for t in batch.tickets if t.request.service_class.level == level)
            self._by_level[level].rate.record(rows, now - since)

    def wake_at(self) -> float | None:
        """When `expire` or `next_batch` should be called although nothing else happens; None = never."""
        first = self._expiry.first()
        if self._overdue or first is None:
            return float("-inf") if self._overdue else None
        return first.expires if self._running >= self.settings.instances else min(first.expires, self._due())

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not (self._waiting or self._running)

    def explain(self) -> tuple[Cut, ...]:
        """The last batches, oldest first: why each was cut."""
        return tuple(self._cuts)

    def statistics(self) -> SchedulerStatistics:
        """The counts at this moment."""
        return SchedulerStatistics(
            requests=len(self._waiting),
            rows=self._rows,
            running=self._running,
            batches=dict(self._reasons),
            batched_rows=self._batched_rows,
            refused=dict(self._admission.refused),
            expired=self._expired,
            cancelled=self._cancelled,
            run_s=self._run_s,
        )

    def _open(self, level: int) -> ClassQueue:
        queue = self._by_level[level] = ClassQueue(level, self.settings.weights)
        self._queues = [self._by_level[key] for key in sorted(self._by_level)]
        return queue

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

    def _due(self) -> float:
        """When what waits goes although it is not full."""
        limits = self.settings
        if not limits.max_delay_s or self._rows >= limits.max_rows or len(self._buckets) > 1:
            return float("-inf")
        oldest, first = next(iter(self._waiting.values())), self._expiry.first()
        delayed = oldest.queued + limits.max_delay_s
        if first is None:
            return delayed
        # Company may cost half of the time that a request has, and must leave twice the time that a run takes.
        left = first.expires - first.queued
        return min(delayed, first.expires - max(left / 2, 2 * self._run_s))

    def _cut(self, now: float) -> Batch:
        """Take the most urgent request, and what fits with it of the next ones in the order of urgency."""
        taken: list[Ticket] = []
        passed: list[tuple[ClassQueue, Ticket]] = []
        room, full = self.settings.max_rows, False
        while room and len(passed) < self.settings.window and (queue := self._most_urgent(now)):
            ticket = queue.pop()
            same = not taken or ticket.bucket == taken[0].bucket
            if same and ticket.request.rows <= room:
                self._take(ticket, queue, now)
                taken.append(ticket)
                room -= ticket.request.rows
            else:
                full |= same
                passed.append((queue, ticket))
        for queue, ticket in passed:
            queue.restore(ticket)
        return self._batch(taken, self._reason(taken, full or not room, now), now)

    def _most_urgent(self, now: float) -> ClassQueue | None:
        """The queue whose first request has the earliest virtual deadline and may go."""
        best, earliest, higher_waits = None, float("inf"), False
        for queue in self._queues:
            head = queue.first()
            if head is not None and head.virtual_deadline < earliest:
                held = higher_waits and head.virtual_deadline < now
                if not held or self._credit >= (_LATE_SHARE - 1) * head.request.rows:
                    best, earliest = queue, head.virtual_deadline
            higher_waits = higher_waits or queue.requests > 0
        return best

    def _take(self, ticket: Ticket, queue: ClassQueue, now: float) -> None:
        late = ticket.virtual_deadline < now
        rows, cost = ticket.request.rows, _LATE_SHARE - 1
        if late and any(q.requests for q in self._queues if q.level < queue.level):
            self._credit -= cost * rows
        else:
            self._credit = min(self._credit + rows, cost * self.settings.max_rows)
        self._leave(ticket, TicketState.RUNNING)

    def _reason(self, taken: list[Ticket], full: bool, now: float) -> CutReason:
        if full:
            return CutReason.FULL
        if len(self._buckets) > (taken[0].bucket in self._buckets):
            return CutReason.BUCKET
        if not self.settings.max_delay_s:
            return CutReason.IDLE
        delayed = min([ticket.queued for ticket in taken]) + self.settings.max_delay_s
        return CutReason.DELAY if delayed <= now else CutReason.DEADLINE

    def _batch(self, taken: list[Ticket], reason: CutReason, now: float) -> Batch:
        rows = sum([ticket.request.rows for ticket in taken])
        self._running += 1
        self._batched_rows += rows
        self._reasons[reason] += 1
        self._cuts.append(Cut(reason, len(taken), rows, now - min([ticket.queued for ticket in taken])))
        backlog = frozenset([queue.level for queue in self._queues if queue.requests])
        return Batch(tuple(taken), rows, reason, now, backlog)
