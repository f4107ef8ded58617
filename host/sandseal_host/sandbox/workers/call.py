"""Calls of plugins in workers, on the host's side: what is handed over, and what is made of the answers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sandseal_host.errors import HostError, RequestInvalid
from sandseal_host.sandbox.abi import MAX_ELEMENTS, StageForm
from sandseal_host.sandbox.deadline import Deadline
from sandseal_host.sandbox.log import GuestLog
from sandseal_host.sandbox.program import no_room
from sandseal_host.sandbox.statistics import Tally
from sandseal_host.sandbox.workers.protocol import Answer, BrokenMessage, Described, Order
from sandseal_host.sandbox.workers.region import SlotLayout, offsets
from sandseal_host.tensors import KINDS, Tensor, check_shape, tensor_from_buffer
from sandseal_signing.tensor import DataType, TensorSpec

if TYPE_CHECKING:
    from sandseal_host.sandbox.workers.process import WorkerProcess

_LEARN = 0.1  # weight of a call in the smoothed time of its stage's calls


class Stage:
    """A plugin that workers have, as the host knows it.

    Args:
        number: what the workers call it.
        form: how its calls look.
        log: where its lines go.
        file: the sealed plugin.
        max_waiting: calls that may wait.
    """

    def __init__(self, number: int, form: StageForm, log: GuestLog, file: int, max_waiting: int) -> None:
        self.number, self.form, self.log, self.file, self.max_waiting = number, form, log, file, max_waiting
        self.label = log.label
        self.tally = Tally()
        self.waiting = 0
        self.closed = False
        self.limit_s = Deadline(form.spec.limits.time_ms).wall_limit_s
        self.memory_limit = form.spec.limits.memory_mib << 20
        self.call_s = self.limit_s  # smoothed; nothing is known at first

    def lay_out(self, inputs: Sequence[Tensor], parameters: bytes) -> tuple[SlotLayout, dict[str, int]]:
        """Check a call's inputs against the spec and find room for them; also gives the sizes of the named axes.

        Raises:
            RequestInvalid: as `StageForm.lay_out` raises.
            PluginOutOfMemory: no guest has room for them.
        """
        try:
            layout, free = self.form.lay_out(inputs, parameters)
            if layout.size >= self.memory_limit:
                raise no_room(self.label, layout.size, self.memory_limit)
        except HostError as error:
            self.tally.add(error, cpu_s=0.0, wall_s=0.0, memory_bytes=0)
            raise
        return SlotLayout.of([tensor.nbytes for tensor in inputs], len(parameters)), free

    def count(self, answer: Answer, wall_s: float) -> None:
        """Count an answered call.

        Args:
            answer: its numbers are the worker's word, which is taken within bounds.
            wall_s: seconds since it could have begun, as the host saw it.
        """
        wall_s, self.log.dropped = min(answer.wall_s, wall_s), self.log.dropped + answer.dropped
        self.call_s += _LEARN * (wall_s - self.call_s) if self.call_s < self.limit_s else wall_s - self.call_s
        memory_bytes = min(answer.memory_bytes, self.memory_limit)
        self.tally.add(answer.error, cpu_s=min(answer.cpu_s, wall_s), wall_s=wall_s, memory_bytes=memory_bytes)

    def check(self, call: "Call", described: Sequence[Described]) -> Sequence[int]:
        """Check what a worker says of its outputs; where they lie in the call's slot.

        Raises:
            BrokenMessage: a worker that is in order would have refused them itself.
        """
        specs, free = self.form.spec.outputs, dict(call.free)
        if len(described) != len(specs) or sum(output.size for output in described) > self.memory_limit:
            raise BrokenMessage("outputs are too many, too few or too large")
        for spec, output in zip(specs, described, strict=True):
            _check(spec, output, free)
        return offsets([output.size for output in described], call.layout.outputs_at)

    def outputs(self, described: Sequence[Described], copies: Sequence[NDArray[np.uint8]]) -> tuple[Tensor, ...]:
        """The outputs out of copies of their data, which is checked.

        Raises:
            BrokenMessage: a worker that is in order would have refused them itself.
        """
        parts = zip(self.form.spec.outputs, described, copies, strict=True)
        self.tally.copy(outward=sum(copy.nbytes for copy in copies))
        try:
            return tuple(
                _checked(tensor_from_buffer(spec.name, spec.dtype, output.shape, copy)) for spec, output, copy in parts
            )
        except (RequestInvalid, ValueError) as error:
            raise BrokenMessage(f"outputs break the spec: {error}") from error


def _check(spec: TensorSpec, output: Described, free: dict[str, int]) -> None:
    try:
        check_shape(spec, output.shape, free)
    except RequestInvalid as error:
        raise BrokenMessage(error.message) from error
    size, elements = KINDS[spec.dtype].size, prod(output.shape)
    if min(output.shape, default=0) < 0 or (output.size != elements * size if size else elements > MAX_ELEMENTS):
        raise BrokenMessage("an output's size is not that of its shape")


def _checked(tensor: Tensor) -> Tensor:
    if tensor.dtype is DataType.BOOL and (tensor.data.view(np.uint8) > 1).any():
        raise BrokenMessage("a BOOL element is neither 0 nor 1")
    return tensor


@dataclass(eq=False, slots=True)
class Stay:
    """Where a stream's instance lives.

    Args:
        number: tells streams apart.
        tenant: whose stream it is.
        worker: the process; None before its first call.
        nbytes: of the instance's memory, as far as is known.
    """

    number: int
    tenant: str
    worker: "WorkerProcess | None" = None
    nbytes: int = 0


@dataclass(eq=False, slots=True)
class Call:
    """One call, from the queue to its answer.

    Args:
        urgency: virtual deadline; the earliest is handed over first.
        number: tells calls apart, and orders equally urgent ones.
        stage: whose call it is.
        inputs, parameters: as `WorkerStage.apply` takes them.
        layout: where they lie in a slot.
        free: sizes of the named axes of the inputs.
        deadline: on the monotonic clock; it is not handed over after that.
        answer: what the caller waits for.
        trial: only see that the plugin can be used.
        stay: of the stream that it is a call of; None for a call of its own.
        flags: as `Instance.call` takes them.
        slot, worker: where its data lies while it is handed over.
        losses: workers that ended under it.
        timer: refuses it at its deadline.
    """

    urgency: float
    number: int
    stage: Stage
    inputs: tuple[Tensor, ...]
    parameters: bytes
    layout: SlotLayout
    free: dict[str, int]
    deadline: float
    answer: "asyncio.Future[tuple[Tensor, ...]]"
    trial: bool = False
    stay: Stay | None = None
    flags: int = 0
    slot: int = -1
    worker: "WorkerProcess | None" = None
    losses: int = 0
    timer: asyncio.TimerHandle | None = field(default=None)

    def __lt__(self, other: "Call") -> bool:
        return (self.urgency, self.number) < (other.urgency, other.number)

    def order(self) -> Order:
        """What the worker is told."""
        inputs = [Described(tensor.nbytes, tensor.shape) for tensor in self.inputs]
        stream = self.stay.number if self.stay else 0
        return Order(
            self.number, self.stage.number, self.slot, self.trial, len(self.parameters), stream, self.flags, inputs
        )

    def settle(self, outcome: tuple[Tensor, ...] | Exception) -> None:
        """Answer the caller, if it still waits."""
        if self.answer.done():
            return
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)
