"""The data plane's one endpoint: what happens between a request's bytes and its answer's.

It knows no server; a face (ASGI, or uvicorn's protocol) hands it exchanges and sends what it returns.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from sandseal_host.api.answer import Answer, json_answer
from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.errors import MethodWrong
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.forms import CallForm, GenerateForm, ProtocolForm
from sandseal_host.api.grant import Grant
from sandseal_host.api.infer import InferencePath
from sandseal_host.api.log_port import Receipts
from sandseal_host.api.metadata import SERVER, health, model_metadata, model_not_ready, model_ready
from sandseal_host.api.model_config import model_config
from sandseal_host.api.model_statistics import model_statistics
from sandseal_host.api.openai.path import OpenAiPath
from sandseal_host.api.openai.problems import openai_problem
from sandseal_host.api.ports import Lifecycle, Models
from sandseal_host.api.prepared import PreparedModels
from sandseal_host.api.problems import problem
from sandseal_host.api.quick import QuickPath
from sandseal_host.api.request_id import repeat_id
from sandseal_host.api.routes import OPENAI, Action, Route, read_version
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.streamed import StreamedAnswer
from sandseal_host.api.visit import Edge
from sandseal_host.errors import NotReady
from sandseal_host.observe.observers import Observers
from sandseal_host.observe.request_metrics import RequestMetrics


class Endpoint:
    """Answers the data plane's routes.

    Args:
        models: the models that can answer.
        lifecycle: knows whether the host is ready.
        door: knows who asks.
        settings: limits and choices.
        metrics: counts what was answered.
        receipts: written for those who ask.
        observers: look at every inference that is over.
    """

    def __init__(
        self,
        models: Models,
        lifecycle: Lifecycle,
        door: Doorkeeper,
        settings: ApiSettings,
        metrics: RequestMetrics,
        receipts: Receipts,
        observers: Observers,
    ) -> None:
        self.models, self.lifecycle, self.door, self.settings = models, lifecycle, door, settings
        self.observers = observers
        self.edge = Edge(
            models,
            PreparedModels(settings, metrics),
            receipts,
            settings.default_class,
            settings.max_ratio,
            observers.observer,
        )
        self._inference = InferencePath(self.edge, door)
        self._protocol, self._plain = ProtocolForm(settings), CallForm(settings)
        self.quick = QuickPath(self.edge, door, self._protocol)
        self._whole, self._events = (GenerateForm(settings, streaming=streaming) for streaming in (False, True))
        openai = OpenAiPath(self.edge, door, settings)
        self._actions: dict[Action, Callable[[Route, Exchange], Awaitable[Answer | StreamedAnswer]]] = {
            Action.INFER: self._infer,
            Action.GENERATE: self._generate,
            Action.GENERATE_STREAM: self._generate_stream,
            Action.CALL: self._call,
            Action.SERVER: self._server,
            Action.LIVE: self._health,
            Action.READY: self._health,
            Action.MODEL: self._model,
            Action.MODEL_READY: self._model_ready,
            Action.CONFIG: self._config,
            Action.STATISTICS: self._statistics,
            Action.ALL_STATISTICS: self._statistics,
            Action.CHAT: openai.generate,
            Action.COMPLETE: openai.generate,
            Action.EMBED: openai.embed,
            Action.OPENAI_MODELS: openai.models,
            Action.OPENAI_MODEL: openai.model,
        }

    async def answer(self, route: Route, exchange: Exchange) -> Answer | StreamedAnswer:
        """The answer to a request; every error becomes its problem."""
        try:
            if exchange.method != route.method:
                raise MethodWrong(f"{exchange.method} is not for this path", allow=route.method)
            return await self._actions[route.action](route, exchange)
        except Exception as error:
            told = openai_problem(error) if route.action in OPENAI else problem(error)
            return repeat_id(told, exchange.headers)

    def metadata(self, name: str, version: int | None) -> dict[str, Any]:
        """A model's public signature, and its versions that serve: of a version, that one."""
        index = self.models.index() if version is None else ()
        return model_metadata(self.models.get(name, version), index)

    def config(self, name: str, version: int | None) -> dict[str, Any]:
        """A model's configuration, in Triton's form."""
        model = self.models.get(name, version)
        return model_config(model, self.models.versions(name), self.settings.default_class)

    def statistics(self, grant: Grant, name: str, version: int | None) -> dict[str, Any]:
        """What a version answered, or every ready one of a name, or every one that the caller may see.

        Raises:
            ModelUnknown, NotReady: there is none of this name and version, or it is not ready.
        """
        if name:
            grant.need_model(name)
            self.models.get(name, version)
        ready = [entry for entry in self.models.index() if entry.state == "ready" and grant.sees(entry.name)]
        wanted = [e for e in ready if (not name or e.name == name) and version in (None, e.version)]
        return {"model_stats": [model_statistics(self.models.get(e.name, e.version)) for e in wanted]}

    def _infer(self, route: Route, exchange: Exchange) -> Awaitable[Answer | StreamedAnswer]:
        return self._inference.answer(route, exchange, self._protocol)

    def _generate(self, route: Route, exchange: Exchange) -> Awaitable[Answer | StreamedAnswer]:
        return self._inference.answer(route, exchange, self._whole)

    def _generate_stream(self, route: Route, exchange: Exchange) -> Awaitable[Answer | StreamedAnswer]:
        return self._inference.answer(route, exchange, self._events)

    def _call(self, route: Route, exchange: Exchange) -> Awaitable[Answer | StreamedAnswer]:
        route = replace(route, version=read_version(exchange.query("version")))
        return self._inference.answer(route, exchange, self._plain)

    async def _server(self, _: Route, exchange: Exchange) -> Answer:
        await self._admit(exchange)
        return json_answer(SERVER)

    async def _health(self, route: Route, _: Exchange) -> Answer:
        return health(self.lifecycle.state, route.action)

    async def _model(self, route: Route, exchange: Exchange) -> Answer:
        (await self._admit(exchange)).need_model(route.model)
        return json_answer(self.metadata(route.model, route.version))

    async def _config(self, route: Route, exchange: Exchange) -> Answer:
        (await self._admit(exchange)).need_model(route.model)
        return json_answer(self.config(route.model, route.version))

    async def _statistics(self, route: Route, exchange: Exchange) -> Answer:
        return json_answer(self.statistics(await self._admit(exchange), route.model, route.version))

    async def _model_ready(self, route: Route, exchange: Exchange) -> Answer:
        grant = await self._admit(exchange)
        grant.need_model(route.model)
        try:
            model = self.models.get(route.model, route.version)
        except NotReady as error:
            return model_not_ready(error, route.model)
        impediment = model.impediment(grant.models)
        return model_ready(model) if impediment is None else model_not_ready(impediment, route.model)

    async def _admit(self, exchange: Exchange) -> Grant:
        return await self.door.admit(exchange.headers.get(b"authorization"), exchange.address, exchange.certificate)
