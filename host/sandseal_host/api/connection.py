"""What one connection may take of the host: so many, so large heads, and no longer than a slow client needs.

uvicorn parses, and bounds none of this. A timer per connection looks at it twice in the time that a client has; what a
request costs for it is a few counters.
"""

import asyncio
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sandseal_host.api.errors import ConnectionsFull, HeadersTooLarge, TooSlow
from sandseal_host.api.settings import ConnectionLimits

_LINGER_S = 1.0  # longer than a request is on its way

Part = Literal["head", "body", "none"]
"""Of a request, that has not come completely."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What a connection was at when the timer looked.

    Args:
        requests: that had begun.
        part: what it was receiving.
        received: bytes, of all requests.
        unread: bytes that wait for the client to read; None while it reads.
        resumed: how often it had read nearly all of them, so that more were written.
    """

    requests: int
    part: Part
    received: int
    unread: int | None
    resumed: int


class BoundedProtocol(HttpToolsProtocol):
    """A connection of uvicorn's with an end to what it takes; whoever derives from it says where a request stands.

    Args:
        limits: what it may take.
        given: what uvicorn gives its protocols; so `named`.
    """

    stopping = False  # the server is: the next answer is the last
    _again = b""  # a head that is parsed again

    def __init__(self, *given: Any, limits: ConnectionLimits | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = limits or ConnectionLimits()
        self._requests = self._received = self._piece = self._head = self._resumed = 0
        self._part: Part = "head"
        self._refusal: Exception | None = None
        self._looked: _Look | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or say that there are enough."""
        super().connection_made(transport)
        self._look_later()
        if len(self.connections) > self._limits.connections:
            self.refuse(ConnectionsFull(f"{self._limits.connections} connections are open"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Begin to end: what has been sent is still answered, and the answer says that the connection closes.

        uvicorn would close a connection between two requests at once, though the next one may be on its way.
        """
        self.stopping = True
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(_LINGER_S, super().shutdown)
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Take what has come, unless it makes a head too large."""
        size = self._piece = len(data)
        self._received += size
        if self._part == "head":
            self._head += size
        self._parse(data)
        if self._part == "head" and self._head > self._limits.head_bytes and self._refusal is None:
            self._refusal = self._head_too_large()
            self.send_400_response("")

    def _parse(self, data: bytes) -> None:
        """Parse what has come as uvicorn does, but lose nothing that follows the wish for another protocol."""
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data, self._again = self._again and self._again + data[upgrade.args[0] :], b""
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return

    def resume_writing(self) -> None:
        """Note that the client has read what waited for it."""
        self._resumed += 1
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Go on with what was sent behind it; no more is read while there is any, however fast a client pipelines."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            if self.pipeline:
                self.flow.pause_reading()
            return
        self.server_state.total_requests += 1
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._rested = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._rest_for(self.timeout_keep_alive)

    def begin_head(self) -> None:
        """Note that a request begins; its head may reach into further pieces, which are counted."""
        self._requests += 1
        self._part, self._head = "head", 0

    def check_head(self) -> None:
        """Note that a head is complete.

        Raises:
            HeadersTooLarge: it is too large; the parser, which this is raised in, then gives up.
        """
        self._part = "body"
        limits = self._limits
        large = self._head + self._piece > limits.head_bytes and self._head_bytes() > limits.head_bytes
        if large or len(self.headers) > limits.headers:
            self._refusal = self._head_too_large()
            raise self._refusal

    def reads_again(self) -> bool:
        """Whether the head that is complete comes again, without its wish for another protocol (RFC 9110, 7.8).

        A client that is declined sends its body all the same, and the parser takes what follows a wish for that
        protocol's. Java's HTTP client wishes for HTTP/2 with every request.
        """
        parser = self.parser
        method = parser.get_method()
        if not parser.should_upgrade() or method == b"CONNECT":
            return False
        lines = [b"%b %b HTTP/%b" % (method, self.url, parser.get_http_version().encode())]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self._again = b"\r\n".join((*lines, b"", b""))
        return True

    def end_request(self) -> None:
        """Note that a request is complete."""
        self._part = "none"

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser gave up on."""
        if self._refusal is None:
            super().send_400_response(msg)
        else:
            self.refuse(self._refusal)

    @abstractmethod
    def refuse(self, error: Exception) -> None:
        """Write the answer that tells of an error, and close the connection."""

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _head_too_large(self) -> HeadersTooLarge:
        limits = self._limits
        return HeadersTooLarge(
            f"the request's head has over {limits.head_bytes} bytes or {limits.headers} fields",
            limit=limits.head_bytes, fields=limits.headers,
        )  # fmt: skip

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, if it has rested for long enough."""
        self.timeout_keep_alive_task = None
        if self.cycle is not None and self.cycle.response_complete:
            left = self._rested + self.timeout_keep_alive - self.loop.time()
            if left > 0:
                self._rest_for(left)
            else:
                self.transport.close()

    def _rest_for(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(self._limits.slow_s / 2, self._look)

    def _look(self) -> None:
        """End a connection that has been waiting for its client since the last look."""
        unread = self.transport.get_write_buffer_size() if self.flow.write_paused else None
        before, now = self._looked, _Look(self._requests, self._part, self._received, unread, self._resumed)
        self._looked = now
        self._look_later()
        if self.transport.is_closing() or (before is not None and self._reads_too_slowly(before, now)):
            self.transport.abort()
        elif before is not None and self._sends_too_slowly(before, now):
            self._end_slow_request()

    def _reads_too_slowly(self, before: _Look, now: _Look) -> bool:
        if before.unread is None or now.unread is None or before.resumed != now.resumed:
            return False
        return before.unread - now.unread < self._least()

    def _sends_too_slowly(self, before: _Look, now: _Look) -> bool:
        if now.part == "none" or (before.part, before.requests) != (now.part, now.requests):
            return False
        return now.part == "head" or (not self.flow.read_paused and now.received - before.received < self._least())

    def _least(self) -> float:
        """Bytes that have to move between two looks."""
        least: float = self._limits.slow_bytes_s * self._limits.slow_s / 2
        return least

    def _end_slow_request(self) -> None:
        cycle: Any = self.cycle
        answered = cycle is None or cycle.response_complete
        started = getattr(cycle, "response_started", answered)
        own = answered if self._part == "head" else not (started or self.pipeline)
        if own and self._requests:
            self.refuse(TooSlow(f"the request's {self._part} did not come in time"))
        else:
            self.transport.close()
