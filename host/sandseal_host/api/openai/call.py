"""One request of the OpenAI API to a model: who asks, of what class, and what was answered."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from sandseal_host.api.account import account, verdict
from sandseal_host.api.answer import Answer
from sandseal_host.api.grant import Grant
from sandseal_host.api.openai.form import node_of
from sandseal_host.api.openai.problems import openai_problem
from sandseal_host.api.ports import LiveModel
from sandseal_host.api.request_id import REQUEST_ID, given_id
from sandseal_host.api.visit import Edge
from sandseal_host.registry.tokens import Scope
from sandseal_host.serving.request import BATCH, CLASSES, REALTIME, STANDARD, Request, request_ids
from sandseal_host.tensors import Tensor

_TIERS = {"priority": REALTIME, "scale": STANDARD, "flex": BATCH}
_SHOWN = {REALTIME.name: "priority", STANDARD.name: "default", BATCH.name: "flex"}
_LEVELS = {c.level: c for c in CLASSES.values()}
# What OpenAI's own service keeps, tells apart or bills by, and nothing here depends on.
_SHRUGGED = ("user", "metadata", "store", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and since when.

    Args:
        edge: what all requests share.
        grant: the caller's.
        headers: by lower-case name.
        arrival: seconds on the monotonic clock.
    """

    edge: Edge
    grant: Grant
    headers: Mapping[bytes, bytes]
    arrival: float

    def enter(self) -> None:
        """Check that the caller may ask at all.

        Raises:
            NotPermitted, RateLimited: not, or not now.
        """
        self.grant.need(Scope.INFER)
        if self.grant.pace is not None:
            self.grant.pace.check()

    def model(self, name: str) -> LiveModel:
        """The model that serves under a name.

        Raises:
            ModelUnknown, NotReady: there is none that the caller may see, or it does not serve.
        """
        self.grant.need_model(name)
        return self.edge.models.get(name, None)


class Call:
    """A request to one model.

    Args:
        caller: who asks.
        body: the request's; `node` gives its members.

    Raises:
        OptionInvalid: no model is named, or the class is not one.
        ModelUnknown, NotReady: as `Caller.model` raises.
    """

    def __init__(self, caller: Caller, body: dict[str, Any]) -> None:
        self.node = node_of(body)
        self.caller, self.arrival = caller, caller.arrival
        self.model = caller.model(self.node.text("model"))
        self.timings: Callable[[], Mapping[str, float]] = dict
        """Seconds per stage so far."""
        self._class = CLASSES[caller.edge.default_class]

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.manifest.name

    @property
    def fingerprint(self) -> str:
        """Which bundle answers."""
        return f"fp_{self.model.bundle_id[:16]}"

    @property
    def tier(self) -> str:
        """The service tier that the request gets."""
        return _SHOWN[self._class.name]

    def read_class(self) -> None:
        """Take the members that say how urgent the request is, and those that say nothing here.

        Raises:
            OptionInvalid: a tier that is none.
        """
        tier = self.node.text("service_tier", "auto")
        if tier not in (*_TIERS, "auto", "default"):
            self.node.fail("service_tier", f"must be one of {['auto', 'default', *_TIERS]}")
        wanted = _LEVELS.get(self.node.integer("priority", 0), _TIERS.get(tier, self._class))
        self._class = self.caller.grant.lower(wanted)
        for name in _SHRUGGED:
            self.node.take(name, None)

    def requests(self, inputs: Sequence[tuple[Tensor, ...]]) -> list[Request]:
        """What serving is asked, a request for each of these; counted on the caller's pace.

        Raises:
            RateLimited: the caller has used it up.
        """
        if self.caller.grant.pace is not None:
            self.caller.grant.pace.take(len(inputs))
        return [self.request(tensors) for tensors in inputs]

    def request(self, inputs: tuple[Tensor, ...] = ()) -> Request:
        """What serving is asked, not counted yet: who asks, of what class, since when."""
        grant = self.caller.grant
        return Request(
            next(request_ids), inputs, 1, self._class, grant.tenant, self.arrival, math.inf, models=grant.models
        )

    def count(self, answer: Answer, came_to: str = "ok") -> Answer:
        """The answer, counted, and with its request's id."""
        caller, ended = self.caller, monotonic()
        prepared = caller.edge.prepared.of(self.model)
        timings, tenant = self.timings(), caller.grant.tenant
        prepared.meter.count(answer.status, self._class.name, tenant, ended - self.arrival, timings.get("decode", 0.0))
        if caller.edge.observer is not None:
            caller.edge.observer(
                account(
                    prepared, caller.headers, "",
                    arrived=self.arrival, asked=self.arrival, ended=ended, status=answer.status, verdict=came_to,
                    service_class=self._class.name, tenant=tenant, timings=timings,
                )
            )  # fmt: skip
        if (given := given_id(caller.headers)) is not None:
            answer = replace(answer, headers=(*answer.headers, (REQUEST_ID, given)))
        return answer

    def fail(self, error: Exception) -> Answer:
        """The answer that tells of an error, counted."""
        return self.count(openai_problem(error), verdict(error))
