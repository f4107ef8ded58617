"""A limit on failures per address, so that guessing tokens costs the guesser time and the host next to nothing."""

import ipaddress
from collections import OrderedDict
from time import monotonic

from sandseal_host.errors import RateLimited

_MAX_ADDRESSES = 10_000


class FailureThrottle:
    """Counts failures per address in windows of fixed length.

    An IPv6 address counts with its /64, which one guest owns whole. Of more addresses than fit, the longest idle are
    forgotten.

    Args:
        limit: failures that a window forgives.
        window_s: length of a window in seconds.
    """

    def __init__(self, limit: int, window_s: float) -> None:
        self._limit, self._window_s = limit, window_s
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Let an address try.

        Raises:
            RateLimited: its window has had too many failures; says when the window ends.
        """
        count, ends = self._failures.get(_network(address), (0, 0.0))
        left = ends - monotonic()
        if count >= self._limit and left > 0:
            raise RateLimited(f"{count} wrong tokens came from {address}", retry_after=left)

    def failed(self, address: str) -> None:
        """Count a failure."""
        key, now = _network(address), monotonic()
        count, ends = self._failures.get(key, (0, 0.0))
        self._failures[key] = (count + 1, ends) if now < ends else (1, now + self._window_s)
        self._failures.move_to_end(key)
        if len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)


def _network(address: str) -> str:
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
