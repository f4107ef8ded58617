"""Keys and values of prompts that were run, for prompts that begin alike; never across tenants."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sandseal_host.serving.generation.ports import Kv

_LEAST = 16  # tokens that are worth a copy
_MOST = 64  # prompts of one tenant, which a look goes through


@dataclass(frozen=True, slots=True)
class PrefixCounts:
    """A cache's counts.

    Args:
        prompts: in it.
        nbytes: of their keys and values.
        hits_total, misses_total: prompts that began like one in it, and others.
        tokens_total: that were spared.
    """

    prompts: int
    nbytes: int
    hits_total: int
    misses_total: int
    tokens_total: int


class PrefixCache:
    """The prompts that were used last; `shrink` bounds it."""

    def __init__(self) -> None:
        self._tenants: dict[str, dict[int, tuple[NDArray[np.int64], Kv]]] = {}
        self._uses: OrderedDict[int, str] = OrderedDict()  # by number, the latest last: whose it is
        self._number = self.nbytes = 0
        self._hits = self._misses = self._tokens = 0

    def find(self, tenant: str, prompt: Sequence[int]) -> Kv | None:
        """Keys and values of as many of the prompt's first tokens as another one of the tenant has; never of all."""
        number, length = self._longest(tenant, prompt)
        length = min(length, len(prompt) - 1)
        if length < _LEAST:
            self._misses += 1
            return None
        self._uses.move_to_end(number)
        self._hits += 1
        self._tokens += length
        return self._tenants[tenant][number][1].first(length)

    def wants(self, tenant: str, prompt: Sequence[int]) -> bool:
        """Whether a prompt has more that is new than a copy is worth."""
        return len(prompt) - self._longest(tenant, prompt)[1] >= _LEAST

    def add(self, tenant: str, prompt: Sequence[int], kv: Kv) -> None:
        """Keep a prompt, in place of those that it begins with."""
        ids = np.array(prompt, np.int64)
        known = self._tenants.get(tenant, {})
        for number in [n for n, (other, _) in known.items() if _common(other, ids) == len(other)]:
            self._drop(number)
        self._number += 1
        own = self._tenants.setdefault(tenant, {})
        own[self._number] = ids, kv
        self._uses[self._number] = tenant
        self.nbytes += kv.nbytes
        if len(own) > _MOST:
            self._drop(next(iter(own)))

    def shrink(self, most_bytes: int) -> None:
        """Drop those not used for longest until no more bytes are held than these."""
        while self.nbytes > most_bytes and self._uses:
            self._drop(next(iter(self._uses)))

    def counts(self) -> PrefixCounts:
        """The counts at this moment."""
        return PrefixCounts(len(self._uses), self.nbytes, self._hits, self._misses, self._tokens)

    def _longest(self, tenant: str, prompt: Sequence[int]) -> tuple[int, int]:
        """The tenant's prompt that has most in common with this one, by number, and how much."""
        ids = np.array(prompt, np.int64)
        known = ((number, _common(other, ids)) for number, (other, _) in self._tenants.get(tenant, {}).items())
        return max(known, key=lambda each: each[1], default=(0, 0))

    def _drop(self, number: int) -> None:
        tenant = self._uses.pop(number)
        own = self._tenants[tenant]
        self.nbytes -= own.pop(number)[1].nbytes
        if not own:
            del self._tenants[tenant]


def _common(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """How many first tokens two prompts have in common."""
    size = min(len(one), len(other))
    differ = np.flatnonzero(one[:size] != other[:size])
    return int(differ[0]) if len(differ) else size
