"""The ways to one host: pools of connections, for threads and for an event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, TypeVar

import httpcore

from sandseal_sdk.errors import ClientClosed, HostRefused, HostUnreachable
from sandseal_sdk.hosts.answer import Answer, Reading, require
from sandseal_sdk.hosts.call import Call
from sandseal_sdk.hosts.patience import Budget, Patience, Tries
from sandseal_sdk.hosts.pool import Pool
from sandseal_sdk.hosts.target import Target, Waits, sized

_Result = TypeVar("_Result")

_PIECE = 64 << 10
_BREAKS = (
    httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
)  # fmt: skip


class _Common:
    """What both have: where to, and what second tries may cost.

    Args:
        target: the host.
        patience: how calls that may be sent twice are tried again.
        most: bytes of an answer that are read into memory.
    """

    def __init__(self, target: Target, patience: Patience, most: int) -> None:
        self._target, self._patience, self._budget, self._most = target, patience, Budget(), most
        self._closed = False

    def _require_open(self) -> None:
        if self._closed:
            raise ClientClosed(f"the client of {self._target.url} is closed")


class Connection(_Common):
    """A pool of connections for any number of threads."""

    def __init__(self, target: Target, patience: Patience, connections: int, most: int) -> None:
        super().__init__(target, patience, most)
        self._pool = Pool(self._connected, connections)

    def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._closed = True
        self._pool.close()

    def send(self, call: Call, waits: Waits) -> Answer:
        """Send a request, once.

        Raises:
            HostRefused, HostUnreachable, AnswerTooLarge: as their classes say.
        """
        with self._begun(call, waits) as response:
            answer = self._whole(response)
        return require(answer, call.accept)

    @contextmanager
    def stream(self, call: Call, waits: Waits) -> Iterator[Iterator[bytes]]:
        """Send a request whose answer is read as it comes; the connection is broken when the block ends early."""
        with self._begun(call, waits) as response:
            if response.status != 200:
                require(self._whole(response))
            yield self._pieces(response)

    @contextmanager
    def _begun(self, call: Call, waits: Waits) -> Iterator[HTTPResponse]:
        self._require_open()
        connection, keep = self._pool.take(waits.moving_s), False
        try:
            response = self._ask(connection, call, waits)
            try:
                yield response
            finally:
                keep = not response.will_close and (response.isclosed() or response.length == 0)
                response.close()
        finally:
            self._pool.give(connection, keep=keep)

    def _ask(self, connection: HTTPConnection, call: Call, waits: Waits) -> HTTPResponse:
        content, headers = sized(call.content, call.headers)
        with self._translated():
            connection.sock.settimeout(waits.moving_s)
            self._target.begin(connection, call.method, call.path, headers)
        self._send_body(connection, [content] if isinstance(content, bytes) else content)
        with self._translated():
            connection.sock.settimeout(waits.answer_s)
            return connection.getresponse()

    def _send_body(self, connection: HTTPConnection, pieces: Iterable[bytes | memoryview]) -> None:
        for piece in pieces:  # what they are made of may fail too, which is not the connection's fault
            with self._translated():
                try:
                    connection.send(piece)
                except (BrokenPipeError, ConnectionResetError):
                    return  # a host that refuses a body before its end says why

    def _whole(self, response: HTTPResponse) -> Answer:
        reading = Reading(response.status, response.getheaders(), self._most)
        if response.length is None:
            for piece in self._pieces(response):
                reading.take(piece)
        else:
            with self._translated():
                reading.take(response.read())
        return reading.answer()

    def _pieces(self, response: HTTPResponse) -> Iterator[bytes]:
        while True:
            with self._translated():
                piece = response.read1(_PIECE)
            if not piece:
                return
            yield piece

    def _connected(self, wait_s: float | None) -> HTTPConnection:
        connection = self._target.connection(wait_s)
        with self._translated():
            try:
                connection.connect()
            except BaseException:
                connection.close()
                raise
        return connection

    def _translated(self) -> AbstractContextManager[None]:
        return self._target.translated(OSError, HTTPException, ValueError)

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

    def __init__(self, target: Target, patience: Patience, connections: int, most: int) -> None:
        super().__init__(target, patience, most)
        self._pool = httpcore.AsyncConnectionPool(**target.pool_options(connections))

    async def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._closed = True
        await self._pool.aclose()

    async def send(self, call: Call, waits: Waits) -> Answer:
        """Send a request, once; a task that is cancelled breaks its connection."""
        async with self._begun(call, waits) as response:
            answer = await self._whole(response)
        return require(answer, call.accept)

    @asynccontextmanager
    async def stream(self, call: Call, waits: Waits) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request whose answer is read as it comes."""
        async with self._begun(call, waits) as response:
            if response.status != 200:
                require(await self._whole(response))
            yield response.aiter_stream()

    @asynccontextmanager
    async def _begun(self, call: Call, waits: Waits) -> AsyncIterator[httpcore.Response]:
        self._require_open()
        with self._target.translated(*_BREAKS):
            async with self._pool.stream(**self._request(call, waits)) as response:
                yield response

    async def _whole(self, response: httpcore.Response) -> Answer:
        headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers)
        reading = Reading(response.status, headers, self._most)
        async for piece in response.aiter_stream():
            reading.take(piece)
        return reading.answer()

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
