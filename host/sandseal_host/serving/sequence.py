"""One sequence: the states that it goes on with, and whose turn it is."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.request import Request
from sandseal_host.tensors import KINDS, Tensor, blank
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import TensorSpec


class Sequence:
    """One sequence: its state, and whose turn it is.

    Args:
        spec: of the model.
        reserve: called with the sequence and the bytes that its states will have, before the step that they first come
            from; raises what that step is refused with.
    """

    def __init__(self, spec: ModelSpec, reserve: Callable[["Sequence", int], None]) -> None:
        self._spec, self._reserve = spec, reserve
        self._states: dict[str, Tensor] = {}  # by input; empty until a step has counted
        self._rows = 0  # of that step
        self._next: tuple[int, dict[str, Tensor]] | None = None  # the same of the step under way, once it has run
        self.turn = asyncio.Lock()  # first come, first served
        self.steps = 0  # that are under way or wait
        self.used = 0.0  # when
        self.reserved = 0  # bytes

    def feed(self, request: Request) -> Request:
        """The request with the states among its inputs.

        Raises:
            RequestInvalid: it has not as many rows as the steps before it, or more than a run takes.
            SequencesFull, TooLarge: there is no room for states of so many rows now, or ever.
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
        if not self._states:
            self._reserve(self, state_bytes(self._spec, request.rows))
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


def state_bytes(spec: ModelSpec, rows: int) -> int:
    """Bytes of the states of a sequence whose steps have so many rows."""
    kept = {state.input for state in spec.state}
    return sum(KINDS[s.dtype].size * prod(_sizes(s, rows)) for s in spec.inputs if s.name in kept)


def _zeros(spec: TensorSpec, rows: int) -> Tensor:
    return blank(spec, _sizes(spec, rows))


def _sizes(spec: TensorSpec, rows: int) -> tuple[int, ...]:
    return tuple(rows if isinstance(axis, str) else axis for axis in spec.shape)
