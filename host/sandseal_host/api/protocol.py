"""The data plane's second face: inference straight from uvicorn's parser to the transport, without ASGI in between.

uvicorn goes on to parse, to pace, to queue pipelined requests and to end idle connections; only the way from a parsed
request to its written answer is shorter. What is not the data plane's takes the usual way.
"""

from functools import lru_cache
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sandseal_host.api.answer import Answer
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.exchange import Exchange, check_size
from sandseal_host.api.routes import Route, match_route

_JOINED_BYTES = 64 * 1024  # up to here copying a body behind its head costs less than a second write


class DataPlaneProtocol(HttpToolsProtocol):
    """One connection; answers the data plane's routes itself when the application is a `DataPlane`."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        route = None
        if isinstance(app, DataPlane) and cycle.scope["method"] != "HEAD":
            route = match_route(cycle.scope["path"].removeprefix(self.root_path))
        if route is None:
            super()._start_asgi_task(cycle, app)
            return
        exchange = CycleExchange(cycle)
        exchange.task = task = self.loop.create_task(self._answer(cycle, exchange, app, route))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(
        self, cycle: RequestResponseCycle, exchange: "CycleExchange", app: DataPlane, route: Route
    ) -> None:
        try:
            answer = await app.endpoint.answer(route, exchange)
            if self.flow.write_paused and not cycle.disconnected:
                await self.flow.drain()
        except BaseException:
            self.transport.close()  # cancelled at the end of a shutdown: there will be no answer
            raise
        if not cycle.disconnected:
            self._write(cycle, answer)

    def _write(self, cycle: RequestResponseCycle, answer: Answer) -> None:
        parts = [_status_line(answer.status)]
        for name, value in (*cycle.default_headers, *answer.headers):
            parts += name, b": ", value, b"\r\n"
        ending = b"\r\n\r\n" if cycle.keep_alive else b"\r\nconnection: close\r\n\r\n"
        parts.append(b"content-length: %d%b" % (len(answer.body), ending))
        if len(answer.body) <= _JOINED_BYTES:
            self.transport.write(b"".join((*parts, answer.body)))
        else:
            self.transport.write(b"".join(parts))
            self.transport.write(answer.body)
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()


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


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    known = {number.value: number.phrase for number in HTTPStatus}
    return f"HTTP/1.1 {status} {known.get(status, '')}\r\n".encode()
