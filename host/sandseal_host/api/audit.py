"""The audit log: a line for everything that somebody did, or tried to do, to the host.

What decides what runs is in the transparency log as well; this one also has what was refused, and who manages tokens.
Reading is not acting, and inference is counted, not written down.
"""

import logging
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandseal_host.api.grant import Grant

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_QUESTIONS = frozenset({"/v2/repository/index", "/v1/trust/explain"})  # asked by POST
_MAX_PATH = 300

_log = logging.getLogger("sandseal.audit")


def note_act(act: str, grant: Grant | None, address: str, outcome: str, **about: object) -> None:
    """Write down who did what.

    Args:
        act: method and path, or the call's name and its model.
        grant: of whoever did it; None when that is not known.
        address: where it came from.
        outcome: the status that was answered, or the error's code.
        about: what it was done to, and with which verdict.
    """
    who = {"token": grant.name, "token_id": grant.id, "tenant": grant.tenant} if grant else {"token": None}
    _log.info(act, extra={**who, "address": address, "outcome": outcome, **about})


def note_stranger(address: str) -> None:
    """Write down that somebody came with a token that nobody issued."""
    _log.info("a wrong token", extra={"address": address})


class AuditMiddleware:
    """Writes down each request to its application that is more than a question.

    Args:
        app: the application; its routes leave the caller's `grant` in the scope's state, and what the act is `about`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application for one connection."""
        if scope["type"] != "http" or scope["method"] in _READING or scope["path"] in _QUESTIONS:
            await self._app(scope, receive, send)
            return
        outcome = "no answer"

        async def watched(message: Message) -> None:
            nonlocal outcome
            if message["type"] == "http.response.start":
                outcome = str(message["status"])
            await send(message)

        state = scope.setdefault("state", {})
        try:
            await self._app(scope, receive, watched)
        finally:
            client = scope.get("client")
            act = f"{scope['method']} {quote(scope['path'])[:_MAX_PATH]}"
            note_act(act, state.get("grant"), client[0] if client else "unknown", outcome, **state.get("about", {}))
