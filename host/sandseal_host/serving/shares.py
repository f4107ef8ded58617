"""Tenants' shares of one class: when each request counts as having arrived."""

from collections.abc import Mapping

from sandseal_host.serving.rate import ServiceRate

_FORGET_ABOVE = 1024


class Shares:
    """Virtual arrivals: a tenant's flood delays the tenant itself, not its neighbours.

    A request's virtual arrival is the later of its arrival and the tenant's last virtual arrival + rows / (the tenant's
    share of the service rate, by weight among those who wait) while other tenants wait. A tenant that waits alone is
    stamped with the time at which its own backlog will have been served: that changes nothing for it, and the first
    neighbour to come is not behind it all.

    Args:
        weights: tenants' weights; 1 for those not named.
        rate: at which the class is served.
    """

    __slots__ = ("_last", "_rate", "_waiting", "_weight", "_weights")

    def __init__(self, weights: Mapping[str, float], rate: ServiceRate) -> None:
        self._weights = weights
        self._rate = rate
        self._waiting: dict[str, int] = {}  # rows
        self._weight = 0.0  # of all who wait
        self._last: dict[str, float] = {}

    def enter(self, tenant: str, rows: int, arrival: float, now: float) -> float:
        """Count a request as waiting and stamp it.

        Args:
            tenant: whose request it is.
            rows: how many it has.
            arrival: when it came.
            now: the present.

        Returns:
            Its virtual arrival, in seconds on the scheduler's clock.
        """
        own, waiting = self._waiting.get(tenant), len(self._waiting)
        if own is None:
            self._weight += self._weights.get(tenant, 1.0)
            own = 0
            stamp = max(arrival, self._after_last(tenant, rows, arrival)) if waiting else arrival
        elif waiting > 1:
            stamp = max(arrival, self._after_last(tenant, rows, arrival))
        else:
            stamp = max(arrival, self._last[tenant], now + own / self._rate.per_second)
        self._waiting[tenant] = own + rows
        self._last[tenant] = stamp
        if len(self._last) > _FORGET_ABOVE + 2 * waiting:
            self._last = {name: t for name, t in self._last.items() if t > now or name in self._waiting}
        return stamp

    def leave(self, tenant: str, rows: int) -> None:
        """Count a request as waiting no more."""
        own = self._waiting[tenant] - rows
        if own:
            self._waiting[tenant] = own
        else:
            del self._waiting[tenant]
            # From zero when nobody waits, so that no rounding adds up.
            self._weight = self._weight - self._weights.get(tenant, 1.0) if self._waiting else 0.0

    def ahead(self, tenant: str, rows: int) -> float:
        """How many of the class's waiting `rows` are served before a new request of the tenant, at its share."""
        own = self._waiting.get(tenant, 0)
        return min(rows, own * self._weight / self._weights.get(tenant, 1.0))

    def allow(self, tenant: str, more: int, rows: int) -> bool:
        """Whether a tenant with `more` rows added holds no more than its share of the `rows` that wait."""
        own, weight = self._waiting.get(tenant, 0), self._weights.get(tenant, 1.0)
        total = self._weight if own else self._weight + weight
        return (own + more) * total <= rows * weight

    def _after_last(self, tenant: str, rows: int, arrival: float) -> float:
        step = rows * self._weight / (self._weights.get(tenant, 1.0) * self._rate.per_second)
        return self._last.get(tenant, arrival - step) + step
