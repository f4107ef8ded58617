"""The id that a client gives its request: repeated in the answer, and in what the host logs about it."""

import re
from collections.abc import Mapping
from dataclasses import replace

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from sandseal_host.api.answer import Answer

REQUEST_ID = b"x-request-id"

_SHAPE = re.compile(rb"[!-~]{1,128}")  # visible ASCII, so that it can stand in a header and in a line of the log


def given_id(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The id that came with a request; None without one that can be repeated."""
    given = headers.get(REQUEST_ID)
    return given if given is not None and _SHAPE.fullmatch(given) else None


def repeat_id(answer: Answer, headers: Mapping[bytes, bytes]) -> Answer:
    """The answer, with the id of its request where that has one."""
    if REQUEST_ID not in headers or (given := given_id(headers)) is None:
        return answer
    return replace(answer, headers=(*answer.headers, (REQUEST_ID, given)))


class RequestIdMiddleware:
    """Repeats the ids of its application's requests, and has them in every line that is logged meanwhile.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application for one connection."""
        given = given_id(dict(scope["headers"])) if scope["type"] == "http" else None
        if given is None:
            await self._app(scope, receive, send)
            return

        async def repeated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (REQUEST_ID, given)]}
            await send(message)

        with bound_contextvars(request_id=given.decode()):
            await self._app(scope, receive, repeated)
