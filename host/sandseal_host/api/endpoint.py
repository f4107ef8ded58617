"""The data plane's one endpoint: what happens between a request's bytes and its answer's.

It knows no server; a face (ASGI here, uvicorn's protocol later) hands it exchanges and sends what it returns.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import count
from time import monotonic

from sandseal_host.api.answer import Answer, json_answer
from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.compression import decompress
from sandseal_host.api.errors import MethodWrong
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.forms import CallForm, Form, ProtocolForm
from sandseal_host.api.grant import Grant, Scope
from sandseal_host.api.metadata import SERVER, health, model_metadata, model_not_ready, model_ready
from sandseal_host.api.ports import Lifecycle, Models
from sandseal_host.api.prepared import Prepared, PreparedModels
from sandseal_host.api.presence import Presence
from sandseal_host.api.problems import problem
from sandseal_host.api.request_decoder import Inference
from sandseal_host.api.routes import Action, Route
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.terms import Terms, read_terms
from sandseal_host.errors import NotReady, RequestInvalid
from sandseal_host.observe.metrics import RequestMetrics
from sandseal_host.serving.request import CLASSES, Request

_INLINE_BYTES = 256 * 1024  # what is larger is parsed and rendered on a thread, so that others get their turns


@dataclass(slots=True)
class Visit:
    """A request that was let in: who asks which model, and on what terms as soon as they are known."""

    exchange: Exchange
    route: Route
    grant: Grant
    prepared: Prepared
    form: Form
    arrival: float
    terms: Terms


class Endpoint:
    """Answers the data plane's routes.

    Args:
        models: the models that can answer.
        lifecycle: knows whether the host is ready.
        door: knows who asks.
        settings: limits and choices.
        metrics: counts what was answered.
    """

    def __init__(
        self, models: Models, lifecycle: Lifecycle, door: Doorkeeper, settings: ApiSettings, metrics: RequestMetrics
    ) -> None:
        self._models, self._lifecycle, self._door, self._settings = models, lifecycle, door, settings
        self._prepared = PreparedModels(settings, metrics)
        self._presence = Presence()
        self._default_terms = Terms(CLASSES[settings.default_class])
        self._ids = count(1)
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

    async def _infer(self, route: Route, exchange: Exchange) -> Answer:
        return await self._measured(self._enter(route, exchange, await self._admit(exchange), ProtocolForm))

    async def _call(self, route: Route, exchange: Exchange) -> Answer:
        route = replace(route, version=_version(exchange.query("version")))
        return await self._measured(self._enter(route, exchange, await self._admit(exchange), CallForm))

    async def _admit(self, exchange: Exchange) -> Grant:
        header = exchange.headers.get(b"authorization")
        return self._door.recall(header) or await self._door.admit(header, exchange.address)

    def _enter(self, route: Route, exchange: Exchange, grant: Grant, form: Callable[..., Form]) -> Visit:
        """May they, is the model there, can it be asked like this: all of it before the first byte of the body."""
        grant.need(Scope.INFER)
        grant.need_model(route.model)
        prepared = self._prepared.of(self._models.get(route.model, route.version))
        made = form(exchange.headers, self._settings, prepared)
        return Visit(exchange, route, grant, prepared, made, monotonic(), self._default_terms)

    async def _measured(self, visit: Visit) -> Answer:
        try:
            answer = await self._run(visit)
        except Exception as error:
            answer = problem(error)
        visit.prepared.meter.count(answer.status, visit.terms.service_class.name, monotonic() - visit.arrival)
        return answer

    async def _run(self, visit: Visit) -> Answer:
        """Read, decode, infer, encode; nothing is awaited between the last look at the model and its `infer`."""
        form = visit.form
        body = await visit.exchange.body(form.limit, form.lead)
        if b"content-encoding" in visit.exchange.headers:
            body = await asyncio.to_thread(_decompressed, visit, body)
        asked = None
        if form.json_bytes(body) > _INLINE_BYTES:
            asked = await asyncio.to_thread(form.decode, visit.prepared, body)
        model = self._models.get(visit.route.model, visit.route.version)
        prepared = self._prepared.of(model)
        if asked is None or prepared is not visit.prepared:  # the model may have been replaced meanwhile
            asked = form.decode(prepared, body)
        visit.prepared = prepared
        request = self._request(visit, asked)
        response = await self._presence.keep(visit.exchange, model.infer(request), visit.arrival)
        if sum([tensor.nbytes for tensor in response.outputs]) > _INLINE_BYTES:
            return await asyncio.to_thread(form.encode, prepared, asked, response)
        return form.encode(prepared, asked, response)

    def _request(self, visit: Visit, asked: Inference) -> Request:
        terms = visit.terms = read_terms(asked.parameters, self._default_terms)
        return Request(
            id=next(self._ids),
            inputs=asked.inputs,
            rows=asked.axes.get("batch", 1),
            service_class=terms.service_class,
            tenant=visit.grant.tenant,
            arrival=visit.arrival,
            deadline=visit.arrival + terms.timeout_s,
            parameters=terms.parameters,
        )


def _decompressed(visit: Visit, body: memoryview) -> memoryview:
    encoding = visit.exchange.headers[b"content-encoding"]
    return memoryview(decompress(body, encoding, visit.form.limit))


def _version(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise RequestInvalid(f"version {text[:40]!r} is not a version number")
    return int(text)
