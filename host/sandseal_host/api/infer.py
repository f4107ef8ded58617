"""The way of an inference through the edge: let in, read, decode, infer, encode, count."""

import asyncio
from dataclasses import replace
from itertools import count
from time import monotonic

from sandseal_host.api.answer import Answer
from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.compression import decompress
from sandseal_host.api.exchange import Exchange
from sandseal_host.api.forms import Form, Layout
from sandseal_host.api.grant import Grant
from sandseal_host.api.inference import Inference
from sandseal_host.api.log_port import Receipts
from sandseal_host.api.ports import Models
from sandseal_host.api.prepared import Prepared, PreparedModels
from sandseal_host.api.presence import Presence
from sandseal_host.api.problems import problem
from sandseal_host.api.routes import Route
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.terms import check_nonce
from sandseal_host.observe.metrics import RequestMetrics
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import Request

_INLINE_BYTES = 256 * 1024  # what is larger is parsed and rendered on a thread, so that others get their turns


class InferencePath:
    """Answers inference requests of any form; the edge's hot path.

    Args:
        models: the models that can answer.
        door: knows who asks.
        settings: limits and choices.
        metrics: counts what was answered.
        receipts: written for those who ask.
    """

    def __init__(
        self, models: Models, door: Doorkeeper, settings: ApiSettings, metrics: RequestMetrics, receipts: Receipts
    ) -> None:
        self._models, self._door, self._default_class = models, door, settings.default_class
        self._receipts = receipts
        self._prepared = PreparedModels(settings, metrics)
        self._presence = Presence()
        self._ids = count(1)

    async def answer(self, route: Route, exchange: Exchange, form: Form) -> Answer:
        """Let a request in and answer it; who may not enter is told so before the body is read.

        Raises:
            NotAuthenticated, NotPermitted, RateLimited: as `Doorkeeper` and `Grant` do.
            ModelUnknown, NotReady: as `Models` does.
        """
        arrival, header = monotonic(), exchange.headers.get(b"authorization")
        grant = self._door.recall(header) or await self._door.admit(header, exchange.address)
        grant.need(Scope.INFER)
        grant.need_model(route.model)
        prepared = self._prepared.of(self._models.get(route.model, route.version))
        service_class = self._default_class
        try:
            layout = form.expect(exchange.headers, prepared)
            body = await exchange.body(layout.limit, layout.json_bytes or 0)
            asked = None
            if len(body) > _INLINE_BYTES or b"content-encoding" in exchange.headers:
                body, asked = await asyncio.to_thread(_unpack, exchange, form, prepared, body, layout)
            # From here to `infer` nothing is awaited: a model that was replaced meanwhile may not be called any more.
            model = self._models.get(route.model, route.version)
            if asked is None or prepared is not self._prepared.of(model):
                prepared = self._prepared.of(model)
                asked = form.decode(prepared, body, layout)
            nonce = _nonce(exchange, asked)
            request = self._request(asked, grant, arrival)
            service_class = request.service_class.name
            with self._presence.wait(exchange, arrival):
                response = await model.infer(request)
            if sum([tensor.data.nbytes for tensor in response.outputs]) > _INLINE_BYTES:
                answer = await asyncio.to_thread(form.encode, prepared, asked.plan, response)
            else:
                answer = form.encode(prepared, asked.plan, response)
            if nonce is not None:
                answer = await asyncio.to_thread(self._receipted, answer, model.bundle_id, body, service_class, nonce)
        except Exception as error:
            answer = problem(error)
        prepared.meter.count(answer.status, service_class, monotonic() - arrival)
        return answer

    def _request(self, asked: Inference, grant: Grant, arrival: float) -> Request:
        plan, terms = asked.plan, asked.plan.terms
        deadline = arrival + terms.timeout_s
        return Request(
            next(self._ids), asked.inputs, plan.rows, terms.service_class, grant.tenant, arrival, deadline,
            terms.parameters,
        )  # fmt: skip

    def _receipted(self, answer: Answer, bundle_id: str, body: memoryview, service_class: str, nonce: str) -> Answer:
        """The answer with a receipt for it; hashes and signs, so it runs on a thread."""
        receipt = self._receipts.write(bundle_id, body, answer.body, service_class=service_class, nonce=nonce)
        return replace(answer, headers=(*answer.headers, (b"sandseal-receipt", receipt)))


def _nonce(exchange: Exchange, asked: Inference) -> str | None:
    """The nonce in the request's JSON; else that in the header Sandseal-Receipt, for bodies without JSON."""
    if b"sandseal-receipt" in exchange.headers and asked.plan.terms.nonce is None:
        return check_nonce(exchange.headers[b"sandseal-receipt"].decode("latin-1"))
    return asked.plan.terms.nonce


def _unpack(
    exchange: Exchange, form: Form, prepared: Prepared, body: memoryview, layout: Layout
) -> tuple[memoryview, Inference]:
    """Decompress and decode; takes its time, so it runs on a thread."""
    if encoding := exchange.headers.get(b"content-encoding"):
        body = decompress(body, encoding, layout.limit)
    return body, form.decode(prepared, body, layout)
