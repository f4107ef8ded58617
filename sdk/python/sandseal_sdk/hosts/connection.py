"""The ways to one host: pools of connections, for threads and for an event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpcore

from sandseal_sdk.errors import ClientClosed, HostRefused, HostUnreachable
from sandseal_sdk.hosts.answer import Answer, require
from sandseal_sdk.hosts.call import Call
from sandseal_sdk.hosts.patience import Budget, Patience, Tries
from sandseal_sdk.hosts.target import Target, Waits, answer_of, sized

_Result = TypeVar("_Result")


class _Common:
    """What both have: where to, and what second tries may cost.

    Args:
        target: the host.
        patience: how calls that may be sent twice are tried again.
    """

    def __init__(self, target: Target, patience: Patience) -> None:
        self._target, self._patience, self._budget = target, patience, Budget()
        self._closed = False

    def _require_open(self) -> None:
        if self._closed:
            raise ClientClosed(f"the client of {self._target.url} is closed")


class Connection(_Common):
    """A pool of connections for any number of threads."""

    def __init__(self, target: Target, patience: Patience, connections: int) -> None:
        super().__init__(target, patience)
        self._pool = httpcore.ConnectionPool(**target.pool_options(connections))

    def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._closed = True
        self._pool.close()

    def send(self, call: Call, waits: Waits) -> Answer:
        """Send a request, once.

        Raises:
            HostRefused, HostUnreachable: as their classes say.
        """
        self._require_open()
        content, headers = sized(call.content, call.headers)
        with self._target.translated():
            response = self._pool.request(**self._target.request(call.method, call.path, content, headers, waits))
        return require(answer_of(response), call.accept)

    @contextmanager
    def stream(self, call: Call, waits: Waits) -> Iterator[Iterator[bytes]]:
        """Send a request whose answer is read as it comes; the connection is broken when the block ends early."""
        self._require_open()
        content, headers = sized(call.content, call.headers)
        request = self._target.request(call.method, call.path, content, headers, waits)
        with self._target.translated(), self._pool.stream(**request) as response:
            if response.status != 200:
                response.read()
                require(answer_of(response))
            yield response.iter_stream()

    def insist(self, ask: Callable[[float | None], _Result], within_s: float | None) -> _Result:
        """Ask, and again while the host is busy or takes no connection and patience, budget and time last.

        Args:
            ask: gets the seconds that are left.
            within_s: how long all of it may take; None for no end.
        """
        tries = Tries(self._patience, self._budget, within_s)
        while True:
            try:
                return ask(tries.left())
            except (HostRefused, HostUnreachable) as error:
                time.sleep(tries.pause(error))


class AsyncConnection(_Common):
    """A pool of connections for the tasks of one event loop; see `Connection`."""

    def __init__(self, target: Target, patience: Patience, connections: int) -> None:
        super().__init__(target, patience)
        self._pool = httpcore.AsyncConnectionPool(**target.pool_options(connections))

    async def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._closed = True
        await self._pool.aclose()

    async def send(self, call: Call, waits: Waits) -> Answer:
        """Send a request, once; a task that is cancelled breaks its connection."""
        self._require_open()
        request = self._request(call, waits)
        with self._target.translated():
            response = await self._pool.request(**request)
        return require(answer_of(response), call.accept)

    @asynccontextmanager
    async def stream(self, call: Call, waits: Waits) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request whose answer is read as it comes."""
        self._require_open()
        with self._target.translated():
            async with self._pool.stream(**self._request(call, waits)) as response:
                if response.status != 200:
                    await response.aread()
                    require(answer_of(response))
                yield response.aiter_stream()

    async def insist(self, ask: Callable[[float | None], Awaitable[_Result]], within_s: float | None) -> _Result:
        """Ask, and again while it is of use; see `Connection.insist`."""
        tries = Tries(self._patience, self._budget, within_s)
        while True:
            try:
                return await ask(tries.left())
            except (HostRefused, HostUnreachable) as error:
                await asyncio.sleep(tries.pause(error))

    def _request(self, call: Call, waits: Waits) -> dict[str, Any]:
        content, headers = sized(call.content, call.headers)
        pieces = content if isinstance(content, bytes) else _later(content)
        return self._target.request(call.method, call.path, pieces, headers, waits)


async def _later(pieces: Sequence[bytes | memoryview] | Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece  # type: ignore[misc]
