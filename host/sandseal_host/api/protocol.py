"""The data plane's second face: inference straight from uvicorn's parser to the transport, without ASGI in between.

uvicorn goes on to parse, to pace, to queue pipelined requests and to end idle connections; only the way from a parsed
request to its written answer is shorter. A small inference needs neither scope nor task (`DirectCall`); what has to
wait before its model can be asked is answered in a task; what is not the data plane's takes the usual way.
"""

import asyncio
import socket
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from sandseal_host.api.answer import Answer
from sandseal_host.api.connection import BoundedProtocol
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.direct import DirectCall
from sandseal_host.api.exchange import Exchange, check_size
from sandseal_host.api.head import Head, Heads
from sandseal_host.api.problems import problem
from sandseal_host.api.routes import Route, match_route
from sandseal_host.api.streamed import StreamedAnswer
from sandseal_host.api.tls import Names, certificate_names

_JOINED_BYTES = 64 * 1024  # up to here copying a body behind its head costs less than a second write
_UNSENT_BYTES = 16 * 1024


class DataPlaneProtocol(BoundedProtocol):
    """One connection; answers the data plane's routes itself when the application is a `DataPlane`."""

    cycle: Any  # a RequestResponseCycle, or a DirectCall in its place
    _calling: DirectCall | None = None  # not answered yet
    _receiving: DirectCall | None = None  # its body is not complete
    _running: RequestResponseCycle | None = None  # the one in a task; `cycle` is the last that was parsed

    certificate: Names = ()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._heads = Heads()
        self._begun = b""  # the data that a request begins

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and the names of its client's certificate."""
        self.certificate = certificate_names(transport.get_extra_info("peercert"))
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take what has come; a whole request whose head came before is not parsed again."""
        if self._part == "none" and not self.transport.is_closing():
            head, body = self._heads.find(data)
            if head is not None and (call := self._begin_call(head, keep_alive=not self.stopping)):
                call.start(body)
                return
            self._begun = data
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Keep what the parser says of a request; a scope is made only where one is needed."""
        self.begin_head()
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """Choose the way that a request takes."""
        self.check_head()
        if self.reads_again():
            return
        begun, self._begun = self._begun, b""
        head, keep_alive = self._quick_head(), self.parser.should_keep_alive()
        call = head and self._begin_call(head, keep_alive and not self.stopping)
        if head is None or call is None:
            self._make_scope()
            super().on_headers_complete()
            self.cycle.keep_alive &= not self.stopping
            return
        self._receiving = call
        if begun and keep_alive:
            self._heads.remember(begun, head)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._receiving is None:
            super().on_body(body)
        else:
            self._receiving.take(body)

    def on_message_complete(self) -> None:
        """Start a direct call, whose body is complete now; all others have begun with their headers."""
        if self._again:
            return
        self.end_request()
        call, self._receiving = self._receiving, None
        if call is None:
            super().on_message_complete()
        else:
            call.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take back what the client no longer waits for."""
        if self._calling is not None:
            self._calling.leave()
        if isinstance(self.cycle, DirectCall):
            self.cycle = None
        if (running := self._running) is not None and not running.response_complete:
            running.disconnected = True  # uvicorn tells the last one alone, before which others may have been sent
            running.message_event.set()
        super().connection_lost(exc)

    def refuse(self, error: Exception) -> None:
        """Write the answer that tells of an error, and close the connection."""
        self._write(problem(error), keep_alive=False)

    def _quick_head(self) -> Head | None:
        """The head of a request that may be answered without a task."""
        parser = self.parser
        if self.expect_100_continue or not isinstance(self.app, DataPlane):
            return None
        if parser.get_method() != b"POST" or parser.get_http_version() != "1.1" or parser.should_upgrade():
            return None
        route = _route(self.url)
        return self.app.endpoint.quick.read(route, dict(self.headers)) if route else None

    def _begin_call(self, head: Head, keep_alive: bool) -> DirectCall | None:
        """The call of a request that can be answered without a task now; None for all others."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or self.flow.write_paused:
            return None
        visit = self.app.endpoint.quick.enter(head, self.certificate)
        if visit is None:
            return None
        self.cycle = self._calling = call = DirectCall(visit, keep_alive, self._answer_call)
        return call

    def _make_scope(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        if self.certificate:
            self.scope["state"]["certificate"] = self.certificate

    def _answer_call(self, call: DirectCall, answer: Answer) -> None:
        self._calling = None
        self._write(answer, call.keep_alive)
        call.response_complete = True
        self.on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running, route = cycle, None
        if isinstance(app, DataPlane) and cycle.scope["method"] != "HEAD":
            route = match_route(cycle.scope["path"].removeprefix(self.root_path))
        if route is None:
            super()._start_asgi_task(cycle, app)
            return
        exchange = CycleExchange(cycle)
        exchange.task = task = self.loop.create_task(self._answer_cycle(cycle, exchange, app, route))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer_cycle(
        self, cycle: RequestResponseCycle, exchange: "CycleExchange", app: DataPlane, route: Route
    ) -> None:
        try:
            answer = await app.endpoint.answer(route, exchange)
            if isinstance(answer, StreamedAnswer):
                self._keep_little_unsent()
                await answer.deliver(exchange, cycle.send)  # type: ignore[arg-type]  # the same messages, as typed dicts
                return
            if self.flow.write_paused and not cycle.disconnected:
                await self.flow.drain()
        except BaseException:
            self.transport.close()  # cancelled at the end of a shutdown: there will be no answer
            raise
        if not cycle.disconnected:
            self._write(answer, cycle.keep_alive)
            cycle.response_started = cycle.response_complete = True
            cycle.message_event.set()
            cycle.on_response()

    def _keep_little_unsent(self) -> None:
        """Let the kernel take no more of a stream than goes out at once, so that a slow reader shows."""
        own = self.transport.get_extra_info("socket")
        if own is not None and hasattr(socket, "TCP_NOTSENT_LOWAT") and not self.transport.is_closing():
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)

    def _write(self, answer: Answer, keep_alive: bool) -> None:
        body = answer.body
        lines = [_status_line(answer.status)]
        lines += [b": ".join(field) for field in (*self.server_state.default_headers, *answer.headers)]
        end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        lines.append(b"content-length: %d\r\n%b" % (answer.size, end))
        head = b"\r\n".join(lines)
        if not answer.tail and len(body) <= _JOINED_BYTES:
            self.transport.write(head + body)
        else:
            self.transport.writelines((head, body, *answer.tail))
        if not keep_alive:
            self.transport.close()


class CycleExchange(Exchange):
    """An exchange that takes a body which is there already without asking ASGI for it."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        super().__init__(cycle.scope, cycle.receive)  # type: ignore[arg-type]  # the same messages, as typed dicts
        self._cycle = cycle

    async def body(self, limit: int, lead: int) -> memoryview:
        """Read the body once; see `Exchange.body`."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected:
            return await super().body(limit, lead)
        body, cycle.body = cycle.body, bytearray()
        check_size(len(body), limit)
        cycle.message_event.clear()  # as a receive would: the next event is the client's leaving
        return memoryview(body)


@lru_cache(maxsize=1024)
def _route(url: bytes) -> Route | None:
    """The route of a request's target, as uvicorn would read it."""
    path: bytes = httptools.parse_url(url).path
    return match_route(unquote_to_bytes(path).decode("utf-8", "replace"))


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    known = {number.value: number.phrase for number in HTTPStatus}
    return f"HTTP/1.1 {status} {known.get(status, '')}".encode()
