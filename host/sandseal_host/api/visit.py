"""One inference's way through the edge, step by step; every face of the data plane goes it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic

from sandseal_host.api.account import account, verdict
from sandseal_host.api.answer import Answer
from sandseal_host.api.compression import compress, decompress, wanted_coding
from sandseal_host.api.forms import Form, Headers, Layout
from sandseal_host.api.grant import Grant
from sandseal_host.api.inference import Inference
from sandseal_host.api.log_port import Receipts
from sandseal_host.api.ports import LiveModel, Models
from sandseal_host.api.prepared import PreparedModels
from sandseal_host.api.presence import Presence
from sandseal_host.api.problems import problem
from sandseal_host.api.request_id import repeat_id
from sandseal_host.api.routes import Route
from sandseal_host.api.terms import check_nonce
from sandseal_host.errors import UnsupportedRequest
from sandseal_host.observe.finished import Finished, Observer
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import Request, Response, request_ids
from sandseal_signing.variants import Precision

QUICK_BYTES = 256 * 1024  # what is larger is parsed and rendered on a thread, so that others get their turns


@dataclass(frozen=True, slots=True)
class Edge:
    """What all visits share.

    Args:
        models: the models that can answer.
        prepared: their codecs and meters.
        receipts: written for those who ask.
        default_class: of requests that name none.
        max_ratio: of decompression.
        observer: shown every inference that is over; None = nobody looks.
        presence: looks out for clients.
    """

    models: Models
    prepared: PreparedModels
    receipts: Receipts
    default_class: str
    max_ratio: float
    observer: Observer | None = None
    presence: Presence = field(default_factory=Presence)


class Visit:
    """An inference from the moment its headers are there: `expect`, `read`, `bind`, `render`, `count`.

    Args:
        edge: what all share.
        route: which model.
        headers: by lower-case name.
        grant: of whoever asks.
        form: how the request is read and answered.
        layout: of its body; None where `expect` will tell.

    Raises:
        NotPermitted, RateLimited, ModelUnknown, NotReady: it may not enter, or there is nothing to visit.
    """

    __slots__ = (
        "_arrival", "_asked", "_body", "_bound", "_class", "_coding", "_edge", "_form", "_grant", "_headers", "_layout",
        "_model", "_nonce", "_prepared", "_route", "_timings",
    )  # fmt: skip

    _asked: Inference
    _body: memoryview
    _bound: float  # when its model was asked
    _layout: Layout
    _nonce: str | None
    _timings: Mapping[str, float]

    def __init__(
        self, edge: Edge, route: Route, headers: Headers, grant: Grant, form: Form, layout: Layout | None = None
    ) -> None:
        self._arrival = monotonic()
        grant.need(Scope.INFER)
        grant.need_model(route.model)
        if grant.pace is not None:
            grant.pace.check()
        self._edge, self._route, self._headers, self._grant, self._form = edge, route, headers, grant, form
        self._model: LiveModel = edge.models.get(route.model, route.version)
        self._prepared = edge.prepared.of(self._model)
        self._class = edge.default_class
        if layout is not None:
            self._layout = layout
        self._coding = wanted_coding(headers[b"accept-encoding"]) if b"accept-encoding" in headers else None

    @property
    def arrival(self) -> float:
        """When it entered, in seconds on the monotonic clock."""
        return self._arrival

    def expect(self) -> Layout:
        """What the body will be; raises as the form's `expect` does."""
        self._layout = layout = self._form.expect(self._headers, self._prepared)
        return layout

    def read(self, body: memoryview) -> None:
        """Decompress and decode the body; slow where it is large.

        Raises:
            ClientError: it is not what the model takes.
        """
        if encoding := self._headers.get(b"content-encoding"):
            body = decompress(body, encoding, self._layout.limit, self._edge.max_ratio)
        self._body = body
        self._asked = self._form.decode(self._prepared, body, self._layout)

    def bind(self) -> tuple[LiveModel, Request]:
        """The model that serves now, and what to ask of it in this same turn of the loop.

        Raises:
            ModelUnknown, NotReady: it was unloaded meanwhile.
            ClientError: it was replaced by one with another signature; the nonce cannot be repeated.
            RateLimited: its token or tenant has sent enough for now.
        """
        edge, route = self._edge, self._route
        model = edge.models.get(route.model, route.version)
        if model is not self._model:
            self._model, self._prepared = model, edge.prepared.of(model)
            self._asked = self._form.decode(self._prepared, self._body, self._layout)
        self._nonce = self._asked.plan.terms.nonce
        if self._nonce is None and b"sandseal-receipt" in self._headers:  # for bodies without JSON
            self._nonce = check_nonce(self._headers[b"sandseal-receipt"].decode("latin-1"))
        request = to_request(self._asked, model.precision, self._grant, self._arrival)
        self._class = request.service_class.name
        if edge.observer is not None:
            self._bound = monotonic()
        return model, request

    def is_quick(self, response: Response) -> bool:
        """Whether `render` may run on the event loop."""
        if self._nonce is not None or self._coding is not None or self._asked.plan.classifies:
            return False
        size = 0
        for tensor in response.outputs:
            size += tensor.data.nbytes
        return size <= QUICK_BYTES

    def check_streamable(self) -> None:
        """See that the answer can be a stream.

        Raises:
            UnsupportedRequest: a receipt is asked for, which is about an answer that has an end.
        """
        if self._nonce is not None:
            raise UnsupportedRequest("there are no receipts for streams", hint="ask for the answer in one piece")

    def render_piece(self, response: Response) -> bytes:
        """A piece of an answer that comes in several; raises as the form's `encode` does."""
        self._timings = response.timings
        return self._form.encode(self._prepared, self._asked.plan, response).body

    def render(self, response: Response) -> Answer:
        """The answer, with a receipt and compressed where that was asked for; raises as the form's `encode` does."""
        self._timings = response.timings
        answer = self._form.encode(self._prepared, self._asked.plan, response)
        if response.skipped:
            told = (b"sandseal-skipped", ", ".join(response.skipped).encode())
            answer = replace(answer, headers=(*answer.headers, told))
        if self._nonce is not None:
            answer = self._with_receipt(answer, response, self._nonce)
        return answer if self._coding is None else compress(answer, self._coding)

    def _with_receipt(self, answer: Answer, response: Response, nonce: str) -> Answer:
        receipt = self._edge.receipts.write(
            self._model.bundle_id, self._body, answer.whole(), service_class=self._class, nonce=nonce,
            skipped=response.skipped, members=response.members,
        )  # fmt: skip
        return replace(answer, headers=(*answer.headers, (b"sandseal-receipt", receipt)))

    def count(self, answer: Answer, came_to: str = "ok") -> Answer:
        """The answer, counted, and with its request's id."""
        ended, decode_s = monotonic(), getattr(self, "_timings", {}).get("decode", 0.0)
        self._prepared.meter.count(answer.status, self._class, self._grant.tenant, ended - self._arrival, decode_s)
        if self._edge.observer is not None:
            self._edge.observer(self._account(answer.status, came_to, ended))
        return repeat_id(answer, self._headers)

    def fail(self, error: Exception) -> Answer:
        """The answer that tells of an error, counted."""
        return self.count(problem(error), verdict(error))

    def _account(self, status: int, came_to: str, ended: float) -> Finished:
        asked, arrived = getattr(self, "_asked", None), self._arrival
        return account(
            self._prepared, self._headers, asked.plan.id if asked else "",
            arrived=arrived, asked=getattr(self, "_bound", arrived), ended=ended, status=status, verdict=came_to,
            service_class=self._class, tenant=self._grant.tenant, timings=getattr(self, "_timings", {}),
        )  # fmt: skip


def to_request(
    asked: Inference, precision: Precision | None, grant: Grant, arrival: float, *, patience_s: float = math.inf
) -> Request:
    """What serving is asked, in a class that the grant reaches; counted on the grant's pace.

    Args:
        asked: what the request says.
        precision: of the variant that serves.
        grant: of whoever asks.
        arrival: since when, in seconds on the monotonic clock.
        patience_s: how long its client waits, where the transport tells.

    Raises:
        PrecisionUnavailable: the request asks for a finer one.
        RateLimited: the grant has used up its pace.
    """
    plan, terms = asked.plan, asked.plan.terms
    if terms.floor is not None:
        terms.check(precision)
    if grant.pace is not None:
        grant.pace.take(plan.rows)
    return Request(
        next(request_ids), asked.inputs, plan.rows, grant.lower(terms.service_class), grant.tenant, arrival,
        arrival + min(terms.timeout_s, patience_s), terms.parameters, terms.step, grant.models,
    )  # fmt: skip
