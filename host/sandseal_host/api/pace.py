"""How often somebody may ask: token buckets, of one token and of all of a tenant's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic

from sandseal_host.errors import RateLimited
from sandseal_host.registry.tokens import Rate


class Bucket:
    """Fills at a steady rate up to one second's worth; whoever finds it not empty may overdraw it.

    So a request of more rows than a second's is possible, and pays for them with the wait of those behind it.

    Args:
        rate: how much comes in a second.
    """

    __slots__ = ("_at", "_level", "_most", "_rate")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = self._level = max(rate, 1.0)
        self._at = monotonic()

    def wait_s(self) -> float:
        """Seconds until it is not empty; 0 when it is not."""
        now = monotonic()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        return 0.0 if self._level >= 1.0 else (1.0 - self._level) / self._rate

    def take(self, count: float) -> None:
        """Take out so much, whether it is there or not."""
        self._level -= count


@dataclass(frozen=True, slots=True)
class Meter:
    """The buckets of one rate.

    Args:
        whose: whose rate it is, for the refusal.
        requests: None where requests have no limit.
        rows: None where rows have none.
    """

    whose: str
    requests: Bucket | None
    rows: Bucket | None

    def check(self) -> None:
        """Let a request on.

        Raises:
            RateLimited: with the seconds until one of its kind may come again.
        """
        for what, bucket in (("requests", self.requests), ("rows", self.rows)):
            if bucket is not None and (wait := bucket.wait_s()):
                raise RateLimited(f"{self.whose} has sent its {what} of this second", retry_after=wait, limited=what)

    def take(self, rows: int) -> None:
        """Count a request that was let on."""
        if self.requests is not None:
            self.requests.take(1.0)
        if self.rows is not None:
            self.rows.take(rows)


class Pace:
    """Every meter that one token's requests count on.

    Args:
        meters: its own, and its tenant's.
    """

    __slots__ = ("_meters",)

    def __init__(self, meters: Iterable[Meter]) -> None:
        self._meters = tuple(meters)

    def check(self) -> None:
        """Let a request on; raises as `Meter.check` does, and counts nothing."""
        for meter in self._meters:
            meter.check()

    def take(self, rows: int) -> None:
        """Let a request of so many rows on, and count it; raises as `Meter.check` does."""
        self.check()
        for meter in self._meters:
            meter.take(rows)


class Paces:
    """The paces of all who have one; a meter goes on where it stood when a token is checked again.

    Args:
        tenants: the rates of tenants that have one.
    """

    def __init__(self, tenants: Mapping[str, Rate]) -> None:
        self._tenants = {tenant: _meter(f"the tenant {tenant!r}", rate) for tenant, rate in tenants.items()}
        self._tokens: dict[str, tuple[Rate, Meter]] = {}

    def of(self, token_id: str, name: str, rate: Rate, tenant: str) -> Pace | None:
        """The pace of a token; None when nothing limits it."""
        meters = [meter] if (meter := self._tenants.get(tenant)) else []
        if rate:
            known, meter = self._tokens.get(token_id, (None, None))
            if meter is None or known != rate:
                meter = _meter(f"the token {name!r}", rate)
                self._tokens[token_id] = (rate, meter)
            meters.append(meter)
        return Pace(meters) if meters else None

    def forget(self, token_id: str) -> None:
        """Drop the meter of a token that is gone."""
        self._tokens.pop(token_id, None)


def _meter(whose: str, rate: Rate) -> Meter:
    buckets = [Bucket(per_s) if per_s is not None else None for per_s in (rate.requests_s, rate.rows_s)]
    return Meter(whose, *buckets)
