"""asyncio's own transports as httpcore's network streams: with anyio's a small call takes half as long again."""

import asyncio
import socket
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from ssl import SSLContext
from typing import Any

import httpcore

from sandseal_sdk.hosts.pool import JOINED

_HELD = 1 << 20  # bytes that wait for a reader; no more are taken from the network then


class LoopBackend(httpcore.AsyncNetworkBackend):
    """Connects over the event loop that runs."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> "LoopStream":
        """A connection to the first of the host's addresses that takes one."""
        try:
            async with asyncio.timeout(timeout):
                return await _connected(host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(error) from error
        except OSError as error:
            raise httpcore.ConnectError(error) from error


class LoopStream(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection; what is written apart, a head and a body that fits beside it, is sent at once."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._unsent = b""
        self._reader: asyncio.Future[None] | None = None
        self._drained = asyncio.Event()
        self._drained.set()
        self._ended = self._lost = False
        self._broken: Exception | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep what came until it is read."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _HELD:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Note that nothing more comes."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that it is over."""
        self._ended = self._lost = True
        self._broken = exc
        self._drained.set()
        self._wake()

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._drained.set()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """What came; nothing at the end."""
        with suppress(httpcore.WriteError):  # a host that refuses early has sent its answer
            await self._send(b"", timeout)
        if not self._pieces and not self._ended:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._reader
            except TimeoutError as error:
                raise httpcore.ReadTimeout(error) from error
        if not self._pieces:
            if self._broken is not None:
                raise httpcore.ReadError(self._broken)
            return b""
        data = self._pieces.popleft()
        if self._size > _HELD >= self._size - len(data):
            self._transport.resume_reading()
        self._size -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send, or keep for the next piece."""
        if len(self._unsent) + len(buffer) <= JOINED:
            self._unsent += buffer
        else:
            await self._send(buffer, timeout)

    async def aclose(self) -> None:
        """Break the connection."""
        if not self._lost:  # asyncio's abort fails where a close had to wait for the last bytes
            self._transport.abort()

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> "LoopStream":
        """Go on over TLS."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                secure = await loop.start_tls(self._transport, self, ssl_context, server_hostname=server_hostname)
        except BaseException as error:
            self._transport.abort()
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout(error) from error
            if isinstance(error, OSError):
                raise httpcore.ConnectError(error) from error
            raise
        if secure is None:
            raise httpcore.ConnectError("the connection ended before TLS began")
        self._transport = secure
        return self

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks: whether a connection that rests has ended, and what TLS agreed on."""
        return bool(self._pieces) or self._ended if info == "is_readable" else self._transport.get_extra_info(info)

    async def _send(self, buffer: bytes, timeout: float | None) -> None:  # noqa: ASYNC109
        unsent, self._unsent = self._unsent, b""
        for piece in filter(None, (unsent, buffer)):
            if self._transport.is_closing():
                raise httpcore.WriteError(self._broken or "the connection has ended")
            self._transport.write(piece)
        if not self._drained.is_set():
            try:
                async with asyncio.timeout(timeout):
                    await self._drained.wait()
            except TimeoutError as error:
                raise httpcore.WriteTimeout(error) from error

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


async def _connected(host: str, port: int) -> LoopStream:
    loop = asyncio.get_running_loop()
    failed: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        own = socket.socket(family, kind, protocol)
        own.setblocking(False)
        try:
            await loop.sock_connect(own, address)
        except OSError as error:
            own.close()
            failed = error
        except BaseException:
            own.close()
            raise
        else:
            _, stream = await loop.create_connection(LoopStream, sock=own)
            return stream
    raise failed or OSError(f"{host} has no address")
