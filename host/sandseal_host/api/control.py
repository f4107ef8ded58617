"""The control plane: FastAPI for everything that is not inference, with the same tokens and the same problems."""

from typing import Annotated

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from sandseal_host.api.account import verdict
from sandseal_host.api.audit import AuditMiddleware
from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.dataplane import send_answer
from sandseal_host.api.errors import MethodWrong, RouteUnknown
from sandseal_host.api.grant import Grant
from sandseal_host.api.metadata import host_version
from sandseal_host.api.openapi import document_both_planes
from sandseal_host.api.permit import permit
from sandseal_host.api.problems import problem
from sandseal_host.api.request_id import RequestIdMiddleware
from sandseal_host.errors import ClientGone, RequestInvalid
from sandseal_host.observe.metrics import HostMetrics
from sandseal_host.registry.tokens import Scope


def create_control() -> FastAPI:
    """The control plane's application, without its routes."""
    # No documentation pages: they would load scripts from elsewhere. The document itself is at /openapi.json.
    control = FastAPI(
        title="Sandseal",
        version=host_version(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _translated, RequestValidationError: _translated},
    )
    control.add_middleware(ProblemMiddleware)
    control.add_middleware(AuditMiddleware)
    control.add_middleware(RequestIdMiddleware)
    document_both_planes(control)
    return control


def add_metrics_route(control: FastAPI, metrics: HostMetrics, door: Doorkeeper) -> None:
    """Add /metrics, for operators and auditors."""

    @control.get("/metrics", summary="Metrics in Prometheus' text format", response_class=Response)
    def show(_: Annotated[Grant, permit(door, Scope.AUDIT, Scope.OPERATE)]) -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


class ProblemMiddleware:
    """Answers what its application raises, through the problem table.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Run the application for one connection."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if started or scope["type"] != "http":
                raise
            if isinstance(error, ClientDisconnect):
                error = ClientGone("the client closed the connection")
            scope.setdefault("state", {})["about"] = {"verdict": verdict(error)}
            await send_answer(problem(error), send)


async def _translated(request: Request, error: Exception) -> Response:
    """FastAPI's own refusals in our words."""
    answer = problem(_meaning(request, error))
    response = Response(answer.body, answer.status)
    response.raw_headers.extend(answer.headers)
    return response


def _meaning(request: Request, error: Exception) -> Exception:
    path = request.url.path[:200]
    match error:
        case RequestValidationError():
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return RequestInvalid(f"{where}: {first['msg']}", where=where)
        case HTTPException(status_code=405):
            return MethodWrong(f"{request.method} is not for {path}", allow=_allowed(request))
        case HTTPException(status_code=404):
            return RouteUnknown(f"no path {path}")
        case HTTPException():
            return RequestInvalid(error.detail)
    return error


def _allowed(request: Request) -> str:
    """All methods of the path; the framework's own header names those of the first route alone."""
    matching = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    matching = [route for route in matching if getattr(route, "path", "") == request.url.path] or matching
    return ", ".join(sorted({method for route in matching for method in getattr(route, "methods", ())}))
