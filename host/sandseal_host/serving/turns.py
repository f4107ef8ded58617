"""Whose turn it is in a model's plugins, which have queues of their own: the rule of the lane's, class by class."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from sandseal_host.errors import QueueFull
from sandseal_host.serving.rate import ServiceRate
from sandseal_host.serving.request import Request, ServiceClass
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.shares import Shares


class Turns:
    """The requests that are in a model's stages.

    Args:
        settings: the lane's, with the classes, their bounds and the tenants' weights.
        clock: seconds, growing.
    """

    def __init__(self, settings: SchedulerSettings, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._classes = {c.level: _ClassTurns(c, settings) for c in settings.classes.values()}

    @contextmanager
    def take(self, request: Request, *, admitted: bool = False) -> Iterator[float]:
        """Count a request as being in a stage meanwhile; gives the virtual deadline by which stages order calls.

        Args:
            request: from its tenant and class all follows.
            admitted: it was let in before.

        Raises:
            QueueFull: so many of its class are there as may, and its tenant has its share of them.
        """
        turns, began = self._classes[request.service_class.level], self._clock()
        if not admitted:
            turns.check(request.tenant)
        urgency = turns.enter(request, began)
        try:
            yield urgency
        finally:
            turns.leave(request.tenant, began, self._clock())


class _ClassTurns:
    def __init__(self, service_class: ServiceClass, settings: SchedulerSettings) -> None:
        self._class = service_class
        self._most = settings.max_requests if service_class.max_requests is None else service_class.max_requests
        self._rate = ServiceRate()
        self._shares = Shares(settings.weights, self._rate)
        self._requests = 0
        self._last_left = 0.0

    def check(self, tenant: str) -> None:
        if self._requests >= self._most and not self._shares.allow(tenant, 1, self._requests):
            raise QueueFull(
                f"{self._requests} {self._class.name} requests are in the model's stages, at most {self._most} may be",
                retry_after=min(60.0, self._requests / self._rate.per_second or 1.0),
            )

    def enter(self, request: Request, now: float) -> float:
        """Stamp a request; see `ClassQueue.enter`."""
        arrival = self._shares.enter(request.tenant, 1, request.arrival, now)
        self._requests += 1
        return min(arrival + self._class.target_s, max(arrival, request.deadline))

    def leave(self, tenant: str, began: float, now: float) -> None:
        self._requests -= 1
        self._shares.leave(tenant, 1)
        if self._requests:
            self._rate.record(1, now - max(began, self._last_left))
        self._last_left = now
