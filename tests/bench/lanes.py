"""Load on a lane in this process: callers that wait for their answers, or requests at a constant rate that do not."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from sandseal_host.errors import Busy
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.session import Session
from sandseal_host.serving.lane import INLINE_BELOW_S, Lane
from sandseal_host.serving.request import STANDARD, Request, Response, ServiceClass
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.tensors import KINDS, Tensor
from support.onnx_models import OnnxModel

_numbers = itertools.count()


@contextmanager
def opened(model: OnnxModel) -> Iterator[Session]:
    """The model on the CPU, with one thread."""
    with Session.open(model.files, Device.parse("cpu")) as session:
        yield session


def lane(session: Session, *, inline_below_s: float = INLINE_BELOW_S, **settings: object) -> Lane:
    """A lane of the session; call it on an event loop."""
    return Lane(session, SchedulerSettings(**{"max_rows": session.max_rows, **settings}), inline_below_s=inline_below_s)


def row(model: OnnxModel) -> tuple[Tensor, ...]:
    """One row for each input of the model."""
    spec = model.spec.inputs[0]
    data = np.ones((1, *spec.shape[1:]), KINDS[spec.dtype].numpy)
    return (Tensor(spec.name, spec.dtype, data.shape, data),)


def request(
    inputs: tuple[Tensor, ...], at: float, service_class: ServiceClass = STANDARD, tenant: str = "t"
) -> Request:
    """A request of one row."""
    return Request(next(_numbers), inputs, 1, service_class, tenant, at, float("inf"))


async def closed_loop(lane: Lane, inputs: tuple[Tensor, ...], callers: int, seconds: float) -> float:
    """Answers a second to callers that each send the next request when they have an answer."""
    until, answers = time.monotonic() + seconds, 0

    async def call() -> None:
        nonlocal answers
        while (now := time.monotonic()) < until:
            await lane.run(request(inputs, now))
            answers += 1

    began = time.monotonic()
    await asyncio.gather(*(call() for _ in range(callers)))
    return answers / (time.monotonic() - began)


class Arrivals:
    """What became of requests that came at a constant rate.

    `took` has seconds from when each was due, whenever it was sent.
    """

    def __init__(self) -> None:
        self.took: list[float] = []
        self.refused = 0
        self._sent = 0
        self._last = asyncio.Event()

    async def wait(self, sent: int) -> None:
        """Wait for what became of the last of all that were sent."""
        self._sent = sent
        self._note()
        await self._last.wait()

    def answer(self, due: float) -> None:
        """Count an answer."""
        self.took.append(time.monotonic() - due)
        self._note()

    def refuse(self) -> None:
        """Count a refusal."""
        self.refused += 1
        self._note()

    def _note(self) -> None:
        if len(self.took) + self.refused == self._sent:
            self._last.set()


class _Waiter:
    """One request's answer."""

    __slots__ = ("_arrivals", "_due")

    def __init__(self, arrivals: Arrivals, due: float) -> None:
        self._arrivals, self._due = arrivals, due

    def done(self) -> bool:
        return False

    def set_result(self, _: Response) -> None:
        self._arrivals.answer(self._due)

    def set_exception(self, _: Exception) -> None:
        self._arrivals.refuse()


async def open_loop(lane: Lane, make: Callable[[float], Request], rate: float, seconds: float) -> Arrivals:
    """Send `rate` requests a second, whether answers come or not, then wait for all answers."""
    arrivals, began, sent = Arrivals(), time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        while (due := began + sent / rate) <= now:
            sent += 1
            try:
                lane.submit(make(due), _Waiter(arrivals, due))
            except Busy:
                arrivals.refuse()
        await asyncio.sleep(min(0.001, 1 / rate))
    await arrivals.wait(sent)
    return arrivals
