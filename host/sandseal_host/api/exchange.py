"""One HTTP request under ASGI, as the data plane reads it: headers, body, and whether anybody is still there."""

import asyncio
from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qs

import numpy as np
from starlette.types import Message, Receive, Scope

from sandseal_host.api.tls import Names
from sandseal_host.errors import ClientGone, TooLarge

_ALIGNMENT = 64


class Exchange:
    """A request whose body has not been read yet.

    Args:
        scope: of type http.
        receive: ASGI's.
    """

    __slots__ = ("_receive", "headers", "scope", "task")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self.task: asyncio.Task[None] | None = None  # that answers it, where the face knows

    @property
    def method(self) -> str:
        """The request's method, in upper case."""
        return cast("str", self.scope["method"])

    @property
    def address(self) -> str:
        """Where the request comes from."""
        client = self.scope.get("client")
        return client[0] if client else "unknown"

    @property
    def certificate(self) -> Names:
        """The names of the client's certificate."""
        return cast("Names", self.scope.get("state", {}).get("certificate", ()))

    def query(self, name: str) -> str:
        """A parameter of the query string; empty when it is not there."""
        query = cast("bytes", self.scope["query_string"]).decode("latin-1")
        return parse_qs(query).get(name, [""])[0]

    async def body(self, limit: int, lead: int) -> memoryview:
        """Read the body once.

        Args:
            limit: the most bytes that are taken.
            lead: how many bytes stand before the first binary tensor; a body that comes in pieces is put together
                so that this tensor lies aligned.

        Raises:
            TooLarge: the body is, or says that it is, larger.
            ClientGone: the client went away before its end.
        """
        check_size(read_size(self.headers) or 0, limit)
        message = await self._next()
        if not message.get("more_body"):
            check_size(len(message.get("body", b"")), limit)
            return memoryview(message.get("body", b""))
        return await self._gather(message, limit, lead)

    async def _gather(self, message: Message, limit: int, lead: int) -> memoryview:
        pieces, total = [], 0
        while True:
            if piece := message.get("body", b""):
                pieces.append(piece)
                total += len(piece)
            check_size(total, limit)
            if not message.get("more_body"):
                return _aligned(pieces, total, lead)
            message = await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client closed the connection before the end of its request")
        return message

    async def wait_disconnected(self) -> None:
        """Return when the client has gone; the body must have been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def read_size(headers: Mapping[bytes, bytes]) -> int | None:
    """The size that a request's headers say its body has; None when they say none that a body can have."""
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else None


def check_size(size: int, limit: int) -> None:
    """Refuse a body of more bytes than the limit.

    Raises:
        TooLarge: with both numbers.
    """
    if size > limit:
        raise TooLarge(f"the body has {size} bytes or more, over {limit}", limit=limit, got=size)


def _aligned(pieces: list[bytes], total: int, lead: int) -> memoryview:
    """One buffer of the pieces, in which the byte after the first `lead` lies aligned for any data type."""
    room = np.empty(total + 2 * _ALIGNMENT, np.uint8)
    start = -(room.ctypes.data + lead) % _ALIGNMENT
    whole = room[start : start + total].data
    at = 0
    for piece in pieces:
        whole[at : at + len(piece)] = piece
        at += len(piece)
    return whole
