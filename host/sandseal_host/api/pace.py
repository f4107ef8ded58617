"""How often somebody may ask: token buckets, of one token and of all of a tenant's."""

from collections.abc import Mapping
from time import monotonic

from sandseal_host.errors import RateLimited
from sandseal_host.registry.tokens import Rate


class Bucket:
    """Fills at a steady rate up to one second's worth; whoever finds one in it may overdraw it.

    So a request of more rows than a second's is possible, and those behind it wait for what it took. Kept are not
    contents but times (as in the generic cell rate algorithm), so that a look is one comparison.

    Args:
        what: it counts, `requests` or `rows`.
        rate: how many come in a second.
        whose: rate it is, for the refusal.
    """

    __slots__ = ("_cost_s", "_full_at", "_rows", "_slack_s", "free_at", "what", "whose")

    def __init__(self, what: str, rate: float, whose: str) -> None:
        self.what, self.whose = what, whose
        self._rows = what == "rows"
        self._cost_s = 1.0 / rate
        self._slack_s = (max(rate, 1.0) - 1.0) / rate
        self._full_at = 0.0
        self.free_at = 0.0

    def take(self, rows: int, now: float) -> None:
        """Take out what a request of so many rows costs, whether it is there or not."""
        begun = self._full_at if self._full_at > now else now
        self._full_at = full_at = begun + (rows if self._rows else 1) * self._cost_s
        self.free_at = full_at - self._slack_s


class Pace:
    """Every bucket that one token's requests take from.

    Args:
        buckets: its own, and its tenant's.
    """

    __slots__ = ("_buckets",)

    def __init__(self, buckets: tuple[Bucket, ...]) -> None:
        self._buckets = buckets

    def check(self) -> float:
        """Let a request on, which is not counted yet; returns the time of the monotonic clock.

        Raises:
            RateLimited: with the seconds until one may come again.
        """
        now = monotonic()
        for bucket in self._buckets:
            if now < bucket.free_at:
                message = f"{bucket.whose} has sent its {bucket.what} of this second"
                raise RateLimited(message, retry_after=bucket.free_at - now, limited=bucket.what)
        return now

    def take(self, rows: int) -> None:
        """Let a request of so many rows on, and count it; raises as `check` does, and then counts nothing."""
        now = self.check()
        for bucket in self._buckets:
            bucket.take(rows, now)


class Paces:
    """The paces of all who have one; buckets go on where they stood when a token is checked again.

    Args:
        tenants: the rates of tenants that have one.
    """

    def __init__(self, tenants: Mapping[str, Rate]) -> None:
        self._tenants = {tenant: _buckets(rate, f"the tenant {tenant!r}") for tenant, rate in tenants.items()}
        self._tokens: dict[str, tuple[Rate, tuple[Bucket, ...]]] = {}

    def of(self, token_id: str, name: str, rate: Rate, tenant: str) -> Pace | None:
        """The pace of a token; None when nothing limits it."""
        buckets = self._tenants.get(tenant, ())
        if rate:
            known, own = self._tokens.get(token_id, (None, ()))
            if known != rate:
                own = _buckets(rate, f"the token {name!r}")
                self._tokens[token_id] = (rate, own)
            buckets = (*own, *buckets)
        return Pace(buckets) if buckets else None

    def forget(self, token_id: str) -> None:
        """Drop the buckets of a token that is gone."""
        self._tokens.pop(token_id, None)


def _buckets(rate: Rate, whose: str) -> tuple[Bucket, ...]:
    limits = (("requests", rate.requests_s), ("rows", rate.rows_s))
    return tuple(Bucket(what, per_s, whose) for what, per_s in limits if per_s is not None)
