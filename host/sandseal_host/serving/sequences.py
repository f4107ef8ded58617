"""Sequences: requests that go on where the one before them ended, for models whose bundle names their state.

The state lives in the host, not in a session, so any instance and any batch may take the next step. One rule: a step
counts when its answer is there. One that fails, expires or is given up leaves the state as it was, to be sent again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

import numpy as np

from sandseal_host.errors import DeadlineExpired, QueueFull, RequestInvalid, SequencesFull
from sandseal_host.serving.request import Request
from sandseal_host.tensors import Tensor, blank
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import TensorSpec

_MAX_WAITING = 64  # steps of one sequence

_Key = tuple[str, str]  # tenant, and what it calls the sequence


@dataclass(frozen=True, slots=True)
class SequenceStatistics:
    """A model's sequences.

    Args:
        open: that were begun, and neither ended nor left alone for too long.
        begun_total, ended_total: by their clients.
        expired_total: left alone for too long.
        refused_total: that could not begin, since as many were open as may.
    """

    open: int
    begun_total: int
    ended_total: int
    expired_total: int
    refused_total: int


class Sequence:
    """One sequence: its state, and whose turn it is.

    Args:
        spec: of the model.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._states: dict[str, Tensor] = {}  # by input; empty until a step has counted
        self._rows = 0  # of that step
        self._next: tuple[int, dict[str, Tensor]] | None = None  # the same of the step under way, once it has run
        self.turn = asyncio.Lock()  # first come, first served
        self.steps = 0  # that are under way or wait
        self.used = 0.0  # when

    def feed(self, request: Request) -> Request:
        """The request with the states among its inputs.

        Raises:
            RequestInvalid: it has not as many rows as the steps before it, or more than a run takes.
        """
        if request.rows > (most := self._spec.batching.max_rows):  # before there are states of that size
            raise RequestInvalid(
                f"the request has {request.rows} rows, but the model takes 1 to {most} at once",
                rows=request.rows, max_rows=most,
            )  # fmt: skip
        if self._states and request.rows != self._rows:
            raise RequestInvalid(
                f"the sequence's steps have {self._rows} rows, this one has {request.rows}",
                rows=request.rows, wanted=self._rows,
            )  # fmt: skip
        taken, plain = {state.input for state in self._spec.state}, iter(request.inputs)
        inputs = [
            (self._states.get(spec.name) or _zeros(spec, request.rows)) if spec.name in taken else next(plain)
            for spec in self._spec.inputs
        ]
        return replace(request, inputs=tuple(inputs))

    def advance(self, rows: int, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take the next states out of a run's outputs; what is left is for the client."""
        named, states = {tensor.name: tensor for tensor in outputs}, dict[str, Tensor]()
        for state in self._spec.state:
            tensor = named.pop(state.output)
            own = np.array(tensor.data, order="C")  # or a row would keep its whole batch's memory
            states[state.input] = Tensor(state.input, tensor.dtype, tensor.shape, own)
        self._next = rows, states
        return tuple(named.values())

    def settle(self, *, counts: bool) -> None:
        """Go on from the states that the step under way came to if it counts; else from those before it."""
        if counts and self._next is not None:
            self._rows, self._states = self._next
        self._next = None


class Sequences:
    """A model's sequences, by tenant; lives on the event loop.

    Args:
        model: what the request's error messages call it.
        spec: of the model, which has states.
        idle_s: seconds after which a sequence that nobody goes on with is forgotten.
        most: sequences that may be open, three quarters of them by one tenant.
        clock: seconds, growing.
    """

    def __init__(
        self, model: str, spec: ModelSpec, *, idle_s: float, most: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._model, self._spec, self._idle_s, self._most, self._clock = model, spec, idle_s, most, clock
        self._open: OrderedDict[_Key, Sequence] = OrderedDict()  # least recently used first
        self._begun = self._ended = self._expired = self._refused = 0
        self._timer: asyncio.TimerHandle | None = None  # while any is open

    @asynccontextmanager
    async def step(self, request: Request) -> AsyncIterator[Sequence]:
        """The sequence that a request belongs to, once the steps before it are over.

        Raises:
            RequestInvalid: it names no sequence, or one that was not begun.
            SequencesFull: it begins one, and as many are open as may.
            QueueFull: too many steps of its sequence wait.
            DeadlineExpired: its turn did not come in time.
        """
        key, sequence = self._enter(request)
        sequence.steps += 1
        try:
            await self._take_turn(sequence, request)
            counts = False
            try:
                yield sequence
                counts = True
            finally:
                sequence.settle(counts=counts)
                sequence.turn.release()
            if request.step is not None and request.step.end:
                self._end(key, sequence)
        finally:
            sequence.steps -= 1
            sequence.used = self._clock()
            if self._open.get(key) is sequence:
                self._open.move_to_end(key)

    def expire(self) -> None:
        """Forget the sequences that were left alone for too long."""
        now = self._clock()
        for key, sequence in list(self._open.items()):
            if sequence.steps:
                continue
            if sequence.used + self._idle_s > now:
                break
            del self._open[key]
            self._expired += 1

    def close(self) -> None:
        """Forget all of them; steps that are under way end."""
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()

    def statistics(self) -> SequenceStatistics:
        """The counts at this moment."""
        return SequenceStatistics(len(self._open), self._begun, self._ended, self._expired, self._refused)

    def _enter(self, request: Request) -> tuple[_Key, Sequence]:
        asked = request.step
        if asked is None:
            raise RequestInvalid(
                f"{self._model!r} goes through sequences, and the request names none", hint="send a sequence_id"
            )
        self.expire()
        key = request.tenant, asked.id
        sequence = self._open.get(key)
        if asked.start:
            sequence = self._begin(key)
        elif sequence is None:
            raise RequestInvalid(
                f"there is no sequence {asked.id[:80]!r}: it was not begun, has ended, or was left alone for too long",
                hint="send sequence_start with its first request",
                sequence=asked.id[:80],
            )
        if sequence.steps >= _MAX_WAITING:
            raise QueueFull(f"{sequence.steps} steps of sequence {asked.id[:80]!r} wait", retry_after=1.0)
        self._open.move_to_end(key)
        return key, sequence

    def _begin(self, key: _Key) -> Sequence:
        """A new sequence; one of the same name is over, as it is to Triton."""
        if key not in self._open and self._full(key[0]):
            self._refused += 1
            raise SequencesFull(f"{len(self._open)} sequences of {self._model!r} are open", retry_after=self._idle_s)
        self._begun += 1
        sequence = self._open[key] = Sequence(self._spec)
        if self._timer is None:
            self._look_later()
        return sequence

    def _full(self, tenant: str) -> bool:
        """Whether a tenant may begin no more; none takes the last quarter of the places, which are for others."""
        taken, share = len(self._open), max(1, self._most * 3 // 4)
        return taken >= self._most or (taken >= share and sum(key[0] == tenant for key in self._open) >= share)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._look)

    def _look(self) -> None:
        self._timer = None
        self.expire()
        if self._open:
            self._look_later()

    async def _take_turn(self, sequence: Sequence, request: Request) -> None:
        if sequence.steps == 1:  # none is before it
            await sequence.turn.acquire()
            return
        left = request.deadline - self._clock()
        try:
            async with asyncio.timeout(None if left == inf else left):
                await sequence.turn.acquire()
        except TimeoutError:
            raise DeadlineExpired("the steps before it in its sequence took all of its time") from None

    def _end(self, key: _Key, sequence: Sequence) -> None:
        self._ended += 1
        if self._open.get(key) is sequence:
            del self._open[key]


def _zeros(spec: TensorSpec, rows: int) -> Tensor:
    shape = tuple(rows if isinstance(axis, str) else axis for axis in spec.shape)
    return blank(spec, shape)
