"""The ASGI face of the data plane; everything that is not its own goes to the control plane."""

from starlette.types import ASGIApp, Receive, Scope, Send

from sandseal_host.api.answer import Answer
from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.routes import match_route
from sandseal_host.api.streamed import StreamedAnswer


class DataPlane:
    """An ASGI application that answers inference lean, without a framework in between.

    Args:
        endpoint: what answers.
        control: the ASGI application for all other paths, lifespan included.
    """

    def __init__(self, endpoint: Endpoint, control: ASGIApp) -> None:
        self.endpoint, self._control = endpoint, control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection."""
        route = None
        if scope["type"] == "http":
            route = match_route(scope["path"].removeprefix(scope.get("root_path", "")))
        if route is None:
            await self._control(scope, receive, send)
            return
        exchange = Exchange(scope, receive)
        answer = await self.endpoint.answer(route, exchange)
        if isinstance(answer, StreamedAnswer):
            await answer.deliver(exchange, send)
        else:
            await send_answer(answer, send)


async def send_answer(answer: Answer, send: Send) -> None:
    """Send an answer through ASGI."""
    headers = [*answer.headers, (b"content-length", b"%d" % answer.size)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    pieces = (answer.body, *answer.tail)
    for i, piece in enumerate(pieces, 1):
        await send({"type": "http.response.body", "body": piece, "more_body": i < len(pieces)})
