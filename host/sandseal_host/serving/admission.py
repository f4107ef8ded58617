"""What a queue refuses at once, because waiting could not help."""

from collections import Counter
from typing import NoReturn

from sandseal_host.errors import Busy, DeadlineExpired, DeadlineImpossible, QueueFull, RequestInvalid
from sandseal_host.serving.classqueue import ClassQueue
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.ticket import Ticket

_MAX_RETRY_S = 60.0


class Admission:
    """Checks each request against the queue's bounds and the measured service rate; `refused` counts by error code."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self.refused: Counter[str] = Counter()
        self._settings = settings

    def check(self, ticket: Ticket, queue: ClassQueue, now: float) -> None:
        """Let a ticket into its class's queue, and stamp when it expires there.

        Each class has the bounds to itself, so that a backlog of batch work leaves realtime its places; a tenant that
        holds less than its share of a full queue still gets in, so that a flood leaves its neighbours theirs.

        Args:
            ticket: to be queued.
            queue: of its class.
            now: the present.

        Raises:
            RequestInvalid, DeadlineExpired, QueueFull, DeadlineImpossible: see `Scheduler.add`.
        """
        request, settings = ticket.request, self._settings
        if not 1 <= request.rows <= settings.max_rows:
            message = f"the request has {request.rows} rows, but the model takes 1 to {settings.max_rows} at once"
            hint = "send the rows in several requests"
            raise RequestInvalid(message, hint=hint, rows=request.rows, max_rows=settings.max_rows)
        if request.deadline <= now:
            raise DeadlineExpired("the request's time ran out before it was queued")
        full = queue.requests >= queue.max_requests or queue.rows + request.rows > settings.max_queued_rows
        if full and not queue.has_share_left(request.tenant, request.rows):
            self._refuse_full(queue)
        expires = now + queue.expires_s
        ticket.expires = expires if expires < request.deadline else request.deadline
        if queue.rows >= settings.max_rows:  # else its turn is the next batch
            wait, left = queue.predicted_wait(request.tenant), ticket.expires - now
            if wait > left:
                self._refuse_late(wait, left)

    def _refuse_full(self, queue: ClassQueue) -> NoReturn:
        waiting = f"{queue.requests} {queue.service_class.name} requests with {queue.rows} rows wait"
        bounds = f"at most {queue.max_requests} with {self._settings.max_queued_rows} rows may"
        retry_after = min(_MAX_RETRY_S, queue.rows / queue.rate.per_second or 1.0)
        self._refuse(QueueFull(f"{waiting}, {bounds}", retry_after=retry_after))

    def _refuse_late(self, wait: float, left: float) -> NoReturn:
        message = f"the request may wait {left:.3g} s, but its turn is some {wait:.3g} s away"
        self._refuse(DeadlineImpossible(message, retry_after=min(_MAX_RETRY_S, wait - left)))

    def _refuse(self, error: Busy) -> NoReturn:
        self.refused[error.code] += 1
        raise error
