"""An answer that is sent piece by piece, as its model makes it: server-sent events."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from time import monotonic

from starlette.types import Send

from sandseal_host.api.answer import Answer, Headers
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.ports import LiveModel
from sandseal_host.api.presence import Presence
from sandseal_host.api.request_id import REQUEST_ID, given_id
from sandseal_host.api.response_encoder import server_timing
from sandseal_host.errors import ClientGone

EVENT_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")

# A proxy that keeps events, or gathers them as nginx does, would make one answer of a stream.
_HEADERS = (EVENT_TYPE, (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


def event(text: bytes) -> bytes:
    """A server-sent event of one line (WHATWG HTML 9.2), which JSON always is."""
    return b"data: %b\n\n" % text


def stream_headers(model: LiveModel, timings: Mapping[str, float]) -> Headers:
    """Which bundle answers, and the seconds by stage that it took until its first piece."""
    return (b"sandseal-bundle", model.bundle_id.encode()), (b"server-timing", server_timing(timings))


class StreamedAnswer:
    """A status, headers, and a body that is still being made; made by `begin`, and then to be delivered.

    The next event is asked for once the last one was taken: a client that reads slowly holds up its own stream, until
    the connection's limits end it.

    Args:
        first: the first event.
        events: the others; closed whatever ends the stream.
        headers: beside those of every stream of events.
        presence: looks out for the client.
        finished: called at the end.
        failed: called instead where something goes wrong; the body of its answer becomes the last event.
    """

    status = 200

    def __init__(
        self,
        first: bytes,
        events: AsyncGenerator[bytes, None],
        headers: Headers,
        presence: Presence,
        finished: Callable[[], object],
        failed: Callable[[Exception], Answer],
    ) -> None:
        self._first, self._events, self._presence = first, events, presence
        self._finished, self._failed = finished, failed
        self.headers: Headers = (*_HEADERS, *headers)

    @classmethod
    async def begin(
        cls,
        events: AsyncGenerator[bytes, None],
        exchange: Exchange,
        presence: Presence,
        *,
        headers: Callable[[], Headers],
        finished: Callable[[], object],
        failed: Callable[[Exception], Answer],
    ) -> "StreamedAnswer":
        """Wait for the first event, so that what goes wrong until then is told by the status.

        Args:
            exchange: whose client waits.
            headers: asked for once the first event is there.

        Raises:
            Exception: as `events` raises before its first.
        """
        with presence.wait(exchange, monotonic()):
            first = await anext(events)
        return cls(first, events, headers(), presence, finished, failed)

    async def deliver(self, exchange: Exchange, send: Send) -> None:
        """Send it through ASGI, to the end or until the client has gone."""
        try:
            async with aclosing(self._events):
                with self._presence.wait(exchange, monotonic()):
                    await self._send_all(exchange, send)
        except ClientGone as gone:
            self._failed(gone)
        except Exception as error:
            await _send_piece(send, event(self._failed(error).body))
            await _send_piece(send, b"", more=False)
        except BaseException:  # cancelled at the end of a shutdown
            self._failed(ClientGone("the host ended the answer"))
            raise
        else:
            self._finished()

    async def _send_all(self, exchange: Exchange, send: Send) -> None:
        headers = list(self.headers)
        if (given := given_id(exchange.headers)) is not None:
            headers.append((REQUEST_ID, given))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await _send_piece(send, self._first)
        async for text in self._events:
            await _send_piece(send, text)
        await _send_piece(send, b"", more=False)


async def _send_piece(send: Send, piece: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": more})
