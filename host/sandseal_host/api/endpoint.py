"""The data plane's one endpoint: what happens between a request's bytes and its answer's.

It knows no server; a face (ASGI here, uvicorn's protocol later) hands it exchanges and sends what it returns.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from sandseal_host.api.answer import Answer, json_answer
from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.errors import MethodWrong
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.forms import CallForm, ProtocolForm
from sandseal_host.api.grant import Grant
from sandseal_host.api.infer import InferencePath
from sandseal_host.api.log_port import Receipts
from sandseal_host.api.metadata import SERVER, health, model_metadata, model_not_ready, model_ready
from sandseal_host.api.ports import Lifecycle, Models
from sandseal_host.api.problems import problem
from sandseal_host.api.routes import Action, Route
from sandseal_host.api.settings import ApiSettings
from sandseal_host.errors import NotReady, RequestInvalid
from sandseal_host.observe.metrics import RequestMetrics


class Endpoint:
    """Answers the data plane's routes.

    Args:
        models: the models that can answer.
        lifecycle: knows whether the host is ready.
        door: knows who asks.
        settings: limits and choices.
        metrics: counts what was answered.
        receipts: written for those who ask.
    """

    def __init__(
        self,
        models: Models,
        lifecycle: Lifecycle,
        door: Doorkeeper,
        settings: ApiSettings,
        metrics: RequestMetrics,
        receipts: Receipts,
    ) -> None:
        self._models, self._lifecycle, self._door = models, lifecycle, door
        self._inference = InferencePath(models, door, settings, metrics, receipts)
        self._protocol, self._plain = ProtocolForm(settings), CallForm(settings)
        self._actions: dict[Action, Callable[[Route, Exchange], Awaitable[Answer]]] = {
            Action.INFER: self._infer,
            Action.CALL: self._call,
            Action.SERVER: self._server,
            Action.LIVE: self._health,
            Action.READY: self._health,
            Action.MODEL: self._model,
            Action.MODEL_READY: self._model_ready,
        }

    async def answer(self, route: Route, exchange: Exchange) -> Answer:
        """The answer to a request; every error becomes its problem."""
        try:
            if exchange.method != route.method:
                raise MethodWrong(f"{exchange.method} is not for this path", allow=route.method)
            return await self._actions[route.action](route, exchange)
        except Exception as error:
            return problem(error)

    def _infer(self, route: Route, exchange: Exchange) -> Awaitable[Answer]:
        return self._inference.answer(route, exchange, self._protocol)

    def _call(self, route: Route, exchange: Exchange) -> Awaitable[Answer]:
        route = replace(route, version=_version(exchange.query("version")))
        return self._inference.answer(route, exchange, self._plain)

    async def _server(self, _: Route, exchange: Exchange) -> Answer:
        await self._admit(exchange)
        return json_answer(SERVER)

    async def _health(self, route: Route, _: Exchange) -> Answer:
        return health(self._lifecycle.state, route.action)

    async def _model(self, route: Route, exchange: Exchange) -> Answer:
        (await self._admit(exchange)).need_model(route.model)
        return json_answer(model_metadata(self._models.get(route.model, route.version), self._models.index()))

    async def _model_ready(self, route: Route, exchange: Exchange) -> Answer:
        (await self._admit(exchange)).need_model(route.model)
        try:
            return model_ready(self._models.get(route.model, route.version))
        except NotReady as error:
            return model_not_ready(error, route.model)

    async def _admit(self, exchange: Exchange) -> Grant:
        return await self._door.admit(exchange.headers.get(b"authorization"), exchange.address)


def _version(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise RequestInvalid(f"version {text[:40]!r} is not a version number")
    return int(text)
