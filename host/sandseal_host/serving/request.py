"""What rooms hand each other about one inference: the request, its class, its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import count

from sandseal_host.tensors import Tensor, record

request_ids = count(1)
"""Numbers for requests."""


@dataclass(frozen=True, slots=True)
class ServiceClass:
    """How urgent a class of requests is.

    Args:
        name: what people call it.
        level: the Open Inference Protocol's `priority`; 1 is the most urgent.
        target_s: seconds from virtual arrival to virtual deadline.
        expires_s: seconds that a request of this class may wait in the queue.
        reserved: instances that run nothing less urgent.
        max_requests: the most requests of this class that wait; None = what the lane has for every class.
    """

    name: str
    level: int
    target_s: float
    expires_s: float
    reserved: int = 0
    max_requests: int | None = None


REALTIME = ServiceClass("realtime", 1, 0.8, 1.2)
STANDARD = ServiceClass("standard", 2, 2.0, 30.0)
BATCH = ServiceClass("batch", 3, 60.0, 600.0)
CLASSES: Mapping[str, ServiceClass] = {c.name: c for c in (REALTIME, STANDARD, BATCH)}


@record
class Step:
    """Where in a sequence a request stands.

    Args:
        id: what its tenant calls the sequence.
        start: it begins it.
        end: it is the last one.
    """

    id: str
    start: bool = False
    end: bool = False


@record
class Request:
    """One inference as the edge hands it in; knows neither HTTP nor any process.

    Args:
        id: unique within the host.
        inputs: the tensors of the model's public signature, in its order.
        rows: size of the batch axis; 1 where the model has none.
        service_class: decides urgency.
        tenant: whose share it uses.
        arrival: seconds on the monotonic clock.
        deadline: seconds on the monotonic clock after which nobody wants the answer.
        parameters: the request's own parameters as UTF-8 JSON, for the plugins.
        step: where in its sequence it stands; None where it names none.
        models: pattern of the names of models that its sender may know of; see `covers`.
    """

    id: int
    inputs: tuple[Tensor, ...]
    rows: int
    service_class: ServiceClass
    tenant: str
    arrival: float
    deadline: float
    parameters: bytes = b"{}"
    step: Step | None = None
    models: str = "*"


@record
class Response:
    """One inference's answer.

    Args:
        outputs: the tensors of the model's public signature, in its order; views, valid while referenced.
        timings: seconds per stage in order (`pre`, `queue`, `run`, `post`), as Server-Timing shows them.
        skipped: stages that failed and were left out, as their manifest allows.
        members: of a pipeline, the ids of the bundles whose models took part, by step.
    """

    outputs: tuple[Tensor, ...]
    timings: Mapping[str, float] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    members: Mapping[str, str] = field(default_factory=dict)


def covers(pattern: str, model: str) -> bool:
    """Whether a pattern (`*` and `?` as in a shell) covers a model's name."""
    return pattern == "*" or fnmatchcase(model, pattern)
