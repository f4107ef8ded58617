"""Inference as the data plane offers it: with the time to wait for bodies and tokens, or at once."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from sandseal_host.api.answer import Answer
from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.forms import Form
from sandseal_host.api.generation import begin, infer, text_response
from sandseal_host.api.ports import LiveModel
from sandseal_host.api.routes import Action, Route
from sandseal_host.api.streamed import StreamedAnswer, stream_headers
from sandseal_host.api.visit import QUICK_BYTES, Edge, Visit
from sandseal_host.serving.generation.stream import Stream
from sandseal_host.serving.request import Request


class InferencePath:
    """Lets inference requests of any form in, and answers them.

    Args:
        edge: what all of them share.
        door: knows who asks.
    """

    def __init__(self, edge: Edge, door: Doorkeeper) -> None:
        self._edge, self._door = edge, door

    async def answer(self, route: Route, exchange: Exchange, form: Form) -> Answer | StreamedAnswer:
        """Answer a request; who may not enter is told so before the body is read.

        Raises:
            NotAuthenticated, NotPermitted, RateLimited: as `Doorkeeper` and `Grant` do.
            ModelUnknown, NotReady: as `Models` does.
        """
        header = exchange.headers.get(b"authorization")
        grant = await self._door.admit(header, exchange.address, exchange.certificate)
        visit = Visit(self._edge, route, exchange.headers, grant, form)
        try:
            layout = visit.expect()
            body = await exchange.body(layout.limit, layout.json_bytes or 0)
            if len(body) > QUICK_BYTES or b"content-encoding" in exchange.headers:
                await asyncio.to_thread(visit.read, body)
            else:
                visit.read(body)
            model, request = visit.bind()
            if route.action is Action.GENERATE_STREAM and model.manifest.generation is not None:
                return await self._stream(visit, exchange, model, request)
            with self._edge.presence.wait(exchange, visit.arrival):
                response = await infer(model, request)
            if visit.is_quick(response):
                return visit.count(visit.render(response))
            return visit.count(await asyncio.to_thread(visit.render, response))
        except Exception as error:
            return visit.fail(error)

    async def _stream(self, visit: Visit, exchange: Exchange, model: LiveModel, request: Request) -> StreamedAnswer:
        """A stream of pieces of text; what goes wrong before the first is raised."""
        visit.check_streamable()
        with self._edge.presence.wait(exchange, visit.arrival):
            stream = await begin(model, request)
        return await StreamedAnswer.begin(
            _events(visit, stream),
            exchange,
            self._edge.presence,
            headers=lambda: stream_headers(model, stream.timings.table()),
            finished=partial(visit.count, Answer(200, b"")),
            failed=visit.fail,
        )


async def _events(visit: Visit, stream: Stream) -> AsyncGenerator[bytes, None]:
    with stream:
        async for piece in stream:
            if piece.text or piece.finish:
                yield visit.render_piece(text_response(piece.text, stream))
