"""Answers that are kept: of models whose bundle says that equal requests have equal answers, where operators let it.

A key is the SHA-256 of everything that an answer hangs on, each part framed by its length, so that no two requests
have one key. Which outputs a client asks for is no part of it: all are kept, and chosen from when one is written.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import numpy as np

from sandseal_host.serving.request import Request, Response
from sandseal_host.tensors import Tensor

_Result = TypeVar("_Result")

_QUICK_BYTES = 256 << 10  # up to which hashing and copying do not keep the loop from others
_TENSOR_BYTES = 512  # that each takes beside its data, its part of an entry included
_LARGEST_SHARE = 16  # of the whole that one answer may take


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a host keeps.

    Args:
        limit_bytes: the most that it may.
        bytes: that it keeps.
        answers: how many.
        evicted_total: answers that made room for others.
    """

    limit_bytes: int
    bytes: int
    answers: int
    evicted_total: int


@dataclass(frozen=True, slots=True)
class ModelCacheStatistics:
    """What one model's requests found.

    Args:
        hits_total, misses_total: requests.
        hits_s, misses_s: seconds that looking took.
    """

    hits_total: int
    misses_total: int
    hits_s: float
    misses_s: float


@dataclass(frozen=True, slots=True)
class _Kept:
    outputs: tuple[Tensor, ...]
    size: int
    bundle: str


class ResponseCache:
    """All models' answers, bounded in bytes; lives on the event loop.

    Where room is needed, the tenant that has most gives up what it used least recently: no tenant's requests drive out
    what others have.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tenants: dict[str, OrderedDict[bytes, _Kept]] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = self._evicted = 0

    def find(self, tenant: str, key: bytes) -> tuple[Tensor, ...] | None:
        """The outputs under a key; None where there are none."""
        answers = self._tenants.get(tenant)
        if answers is None or key not in answers:
            return None
        answers.move_to_end(key)
        return answers[key].outputs

    def takes(self, outputs: tuple[Tensor, ...]) -> bool:
        """Whether outputs are small enough to be kept."""
        return _size(outputs) * _LARGEST_SHARE <= self._limit

    def keep(self, tenant: str, key: bytes, bundle: str, outputs: tuple[Tensor, ...]) -> None:
        """Keep outputs that it takes and that nobody else has in hand."""
        size = _size(outputs)
        if key in self._tenants.get(tenant, ()):  # two asked the same at once
            self._remove(tenant, key)
        self._tenants.setdefault(tenant, OrderedDict())[key] = _Kept(outputs, size, bundle)
        self._sizes[tenant] = self._sizes.get(tenant, 0) + size
        self._bytes += size
        while self._bytes > self._limit:
            self._evict()

    def drop(self, bundle: str) -> None:
        """Forget what a bundle's model answered."""
        for tenant, answers in list(self._tenants.items()):
            for key in [key for key, kept in answers.items() if kept.bundle == bundle]:
                self._remove(tenant, key)

    def statistics(self) -> CacheStatistics:
        """The counts at this moment."""
        answers = sum(map(len, self._tenants.values()))
        return CacheStatistics(self._limit, self._bytes, answers, self._evicted)

    def _evict(self) -> None:
        tenant = max(self._sizes, key=self._sizes.__getitem__)
        self._remove(tenant, next(iter(self._tenants[tenant])))
        self._evicted += 1

    def _remove(self, tenant: str, key: bytes) -> None:
        size = self._tenants[tenant].pop(key).size
        self._sizes[tenant] -= size
        self._bytes -= size
        if not self._tenants[tenant]:
            del self._tenants[tenant], self._sizes[tenant]


class ModelCache:
    """One loaded model's part of it.

    Args:
        cache: the host's.
        bundle: the id of the model's bundle.
        variant: which of the bundle's graphs answers.
    """

    def __init__(self, cache: ResponseCache, bundle: str, variant: str = "") -> None:
        self._cache, self._bundle, self._variant = cache, bundle, variant
        self._open = True
        self._hits = self._misses = 0
        self._hits_s = self._misses_s = 0.0

    async def answer(self, request: Request, run: Callable[[Request], Awaitable[Response]]) -> Response:
        """The answer that is kept, else what `run` gives, which is then kept; `timings` begins with which it was.

        An answer that a plugin was left out of is not kept.
        """
        began = monotonic()
        key = await _apart_if_large(request.inputs, request_key, self._bundle, self._variant, request)
        outputs = self._cache.find(request.tenant, key)
        took = monotonic() - began
        if outputs is not None:
            self._hits += 1
            self._hits_s += took
            return Response(outputs, {"cache-hit": took})
        self._misses += 1
        self._misses_s += took
        response = await run(request)
        if not response.skipped and self._cache.takes(response.outputs):
            own = await _apart_if_large(response.outputs, _copies, response.outputs)
            if self._open:
                self._cache.keep(request.tenant, key, self._bundle, own)
        return Response(response.outputs, {"cache-miss": took, **response.timings}, response.skipped)

    def close(self) -> None:
        """Forget what is kept of this model, for good."""
        self._open = False
        self._cache.drop(self._bundle)

    def statistics(self) -> ModelCacheStatistics:
        """The counts at this moment."""
        return ModelCacheStatistics(self._hits, self._misses, self._hits_s, self._misses_s)


def request_key(bundle: str, variant: str, request: Request) -> bytes:
    """The SHA-256 of a request to a bundle's variant, over parts of which each has its length before it, in 8 bytes."""
    digest = hashlib.sha256()

    def part(data: bytes | memoryview) -> None:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)

    for text in (bundle, variant, request.tenant):
        part(text.encode())
    part(request.parameters)
    for tensor in request.inputs:
        part(tensor.name.encode())
        part(tensor.dtype.encode())
        part(np.array(tensor.shape, "<i8").tobytes())
        part(tensor.data.reshape(-1).view(np.uint8).data)
    return digest.digest()


async def _apart_if_large(tensors: tuple[Tensor, ...], work: Callable[..., _Result], *arguments: object) -> _Result:
    """What `work` gives; it runs on a thread where the tensors are large."""
    if sum([tensor.nbytes for tensor in tensors]) > _QUICK_BYTES:
        return await asyncio.to_thread(work, *arguments)
    return work(*arguments)


def _copies(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(Tensor(t.name, t.dtype, t.shape, np.array(t.data, order="C")) for t in outputs)


def _size(outputs: tuple[Tensor, ...]) -> int:
    return sum([_TENSOR_BYTES + tensor.nbytes for tensor in outputs])
