"""Requests, runners and stages for tests of serving: tiny real ones behind its ports."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sandseal_host.errors import ModelFailed
from sandseal_host.serving.guarded_stage import GuardedStage
from sandseal_host.serving.lane import Lane
from sandseal_host.serving.model import Model
from sandseal_host.serving.parts import ModelParts
from sandseal_host.serving.request import STANDARD, Request, ServiceClass
from sandseal_host.serving.scheduler import Scheduler
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.states import ModelState
from sandseal_host.serving.ticket import Ticket
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import Batching, Manifest, ModelSpec
from sandseal_signing.stage import StageSpec
from sandseal_signing.tensor import DataType, TensorSpec

NEVER = float("inf")


def tensor(values, name: str = "x") -> Tensor:
    """An FP32 tensor."""
    data = np.asarray(values, np.float32)
    return Tensor(name, DataType.FP32, data.shape, data)


def request(
    number: int,
    values=None,
    *,
    rows: int = 1,
    service_class: ServiceClass = STANDARD,
    tenant: str = "t",
    arrival: float = 0.0,
    deadline: float = NEVER,
) -> Request:
    """A request whose rows all hold its number, unless values are given."""
    inputs = tensor(np.full((rows, 2), number) if values is None else values)
    return Request(number, (inputs,), inputs.shape[0], service_class, tenant, arrival, deadline)


class Queue:
    """A scheduler driven by a table: each call says when it happens."""

    def __init__(self, **settings) -> None:
        self.scheduler = Scheduler(SchedulerSettings(**{"max_rows": 4, **settings}))
        self.tickets: dict[int, Ticket] = {}

    def add(self, number: int, now: float, bucket: object = None, **what) -> Ticket:
        """Queue request `number`."""
        ticket = Ticket(request(number, arrival=now, **what), bucket)
        self.scheduler.add(ticket, now)
        self.tickets[number] = ticket
        return ticket

    def batch(self, now: float) -> list[int]:
        """Numbers of the batch that starts now; empty if none does."""
        batch = self.scheduler.next_batch(now)
        self.last = batch
        return [ticket.request.id for ticket in batch.tickets] if batch else []

    def serve(self, now: float, took: float = 0.0) -> list[int]:
        """Run the batch that starts now to its end."""
        numbers = self.batch(now)
        if self.last:
            self.scheduler.done(self.last, now + took)
        return numbers

    def expire(self, now: float) -> list[int]:
        """Numbers of those whose time ran out."""
        return [ticket.request.id for ticket in self.scheduler.expire(now)]


@dataclass
class Handle:
    """What ends a run of `Doubler` that waits for its gate."""

    terminate: bool = False


class Doubler:
    """Runs batches: y = 2 x, row by row; notes what it ran, and on which thread.

    Args:
        max_rows: of a batch.
        took_s: seconds that a run sleeps, as if a device were busy.
        refuse: says which rows make a run fail.
        gate: when given, each run waits for it.
    """

    def __init__(
        self,
        max_rows: int = 4,
        took_s: float = 0.0,
        refuse: Callable[[np.ndarray], bool] = lambda rows: False,
        gate: threading.Event | None = None,
    ) -> None:
        self.max_rows, self._took_s, self._refuse, self._gate = max_rows, took_s, refuse, gate
        self.batches: list[list[int]] = []
        self.threads: set[str] = set()
        self.started = threading.Event()
        self.begun = threading.Semaphore(0)  # released by each run
        self.closed = False

    def bucket(self, inputs: tuple[Tensor, ...]):
        return inputs[0].shape[1:]

    def handle(self) -> Handle:
        return Handle()

    def run(self, requests: Sequence[tuple[Tensor, ...]], handle: Handle | None = None) -> list[tuple[Tensor, ...]]:
        self.batches.append([int(inputs[0].data[0, 0]) for inputs in requests])
        self.threads.add(threading.current_thread().name)
        self.started.set()
        self.begun.release()
        if self._gate is not None:
            self._wait(self._gate, handle)
        if self._took_s:
            time.sleep(self._took_s)
        if any(self._refuse(inputs[0].data) for inputs in requests):
            raise ModelFailed("a row is refused")
        return [(tensor(2 * inputs[0].data, "y"),) for inputs in requests]

    def close(self) -> None:
        self.closed = True

    def _wait(self, gate: threading.Event, handle: Handle | None) -> None:
        until = time.monotonic() + 60
        while not gate.wait(0.005):
            if handle is not None and handle.terminate:
                raise ModelFailed("exiting due to terminate flag")
            assert time.monotonic() < until


class Stage:
    """A plugin stage that applies a function to each tensor's values."""

    def __init__(self, change: Callable[[np.ndarray], np.ndarray], name: str = "x") -> None:
        self._change, self._name = change, name
        self.calls: list[tuple[bytes, float, float]] = []
        self.closed = False

    async def apply(self, inputs, parameters: bytes, urgency: float, deadline: float):
        self.calls.append((parameters, urgency, deadline))
        return tuple(tensor(self._change(t.data), self._name) for t in inputs)

    def close(self) -> None:
        self.closed = True


ROW = TensorSpec("x", DataType.FP32, ("batch", 2))


def manifest(name: str = "acme.double", version: int = 1, *, staged: bool = False) -> Manifest:
    """Of a model x -> y FP32 [batch, 2]; with `staged`, the public tensors have other names."""
    result = TensorSpec("y", DataType.FP32, ("batch", 2))
    stage = {"plugin": "plugins/p.wasm", "function": "apply"}
    pre = StageSpec(**stage, inputs=(TensorSpec("raw", DataType.FP32, ("n",)),), outputs=(ROW,))
    post = StageSpec(**stage, inputs=(result,), outputs=(TensorSpec("label", DataType.FP32, ("batch",)),))
    spec = ModelSpec("model.onnx", (ROW,), (result,), batching=Batching(max_rows=4))
    return Manifest(name, version, spec, pre=pre if staged else None, post=post if staged else None)


def ready_model(
    version: int = 1,
    *,
    name: str = "acme.double",
    runner: Doubler | None = None,
    pre: Stage | None = None,
    post: Stage | None = None,
    described: Manifest | None = None,
    **parts: object,
) -> Model:
    """A model that serves, with a runner of its own; `parts` are further ones of `ModelParts`."""
    model = Model(described or manifest(name, version, staged=pre is not None), f"{version:064x}")
    for state in (ModelState.VERIFYING, ModelState.LOADING, ModelState.WARMING):
        model.advance(state)
    runner = runner or Doubler()
    lane = Lane(runner, SchedulerSettings(max_rows=runner.max_rows), name=name, inline_below_s=0.0)
    spec = StageSpec("plugins/p.wasm", "apply", (), ())
    guarded = [
        stage and GuardedStage(stage, own or spec)
        for stage, own in ((pre, model.manifest.pre), (post, model.manifest.post))
    ]
    model.serve(ModelParts(runner, lane, *guarded, **parts))
    return model
