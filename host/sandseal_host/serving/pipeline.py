"""A pipeline: models that the host serves, and plugins of its own, that answer a request one after the other.

Each model is asked as any client of the same tenant would ask it: in the request's class, with its arrival and its
deadline, beside everybody else's requests. Which version of it answers is decided at its step, so that a model may be
replaced or revoked under a pipeline as under any client.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from time import monotonic, time

from sandseal_host.errors import Busy, HostError, MemberUnavailable, ModelFailed, NotReady, RequestInvalid
from sandseal_host.serving.breakable import Breakable
from sandseal_host.serving.cuts import Explanation
from sandseal_host.serving.fan_out import fan_out
from sandseal_host.serving.guarded_stage import GuardedStage, StageStatistics
from sandseal_host.serving.members import ABSENT, Find, Members, unavailable
from sandseal_host.serving.request import Request, Response
from sandseal_host.serving.rows import rows_of
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.tally import Tally
from sandseal_host.tensors import Tensor, check_shape
from sandseal_signing.pipeline import REQUEST, PipelineSpec, Source, StepSpec
from sandseal_signing.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class StepStatistics:
    """One step since its pipeline was loaded.

    Args:
        answered_total, failed_total: requests.
        rows_total: that its model answered; 0 of a plugin.
        seconds_total: that the answered requests took.
        plugin: None for a model.
    """

    answered_total: int
    failed_total: int
    rows_total: int
    seconds_total: float
    plugin: StageStatistics | None


@dataclass(frozen=True, slots=True)
class PipelineStatistics:
    """A pipeline's counts.

    Args:
        running: requests that are under way.
        step: by name.
    """

    running: int
    step: Mapping[str, StepStatistics]


@dataclass(frozen=True, slots=True)
class StepPlugins:
    """The plugins of a pipeline's steps, by step."""

    stages: Mapping[str, GuardedStage]

    def close(self) -> None:
        """Stop taking calls and drop the plugins; blocks."""
        for stage in self.stages.values():
            stage.close()


class Pipeline:
    """Answers requests by the steps of one bundle; stands where another model has its lane.

    Args:
        spec: signed.
        plugins: of its steps; not closed with this.
        find: the host's models.
        settings: the classes, and how many requests of each may be under way.
        name: for messages.
    """

    def __init__(
        self, spec: PipelineSpec, plugins: StepPlugins, find: Find, settings: SchedulerSettings, *, name: str
    ) -> None:
        self._spec, self._stages, self.settings, self._name = spec, plugins.stages, settings, name
        self.members = Members(spec, find)
        self._under_way = Breakable()
        self._refusal: HostError | None = None  # of what is still to come
        self._counts: Counter[tuple[str, str]] = Counter()  # by step and what is counted
        self._seconds: defaultdict[str, float] = defaultdict(float)  # by step
        self.tally = Tally()
        self.refused = 0  # and failed

    async def run(self, request: Request, urgency: float) -> Response:
        """Answer a request; a caller that is cancelled gives up every step of it.

        Args:
            urgency: virtual deadline, by which its plugins order their calls.

        Raises:
            MemberUnavailable: a model that it needs does not serve, or is not what the pipeline is signed for.
            HostError: a step failed, and the message says which; or the pipeline is being unloaded, or was withdrawn.
        """
        began = monotonic()
        try:
            if self._refusal is not None:
                raise copy(self._refusal)
            if (waiting := self.members.waiting(request.models)) is not None:
                raise waiting
            response = await self._under_way.run(self._answer(request, urgency))
        except HostError:
            self.refused += 1
            raise
        took = monotonic() - began
        queue_s = sum([seconds for stage, seconds in response.timings.items() if stage.endswith(".queue")])
        self.tally.batch(request.rows, took, time())
        self.tally.answered(request.rows, queue_s, max(0.0, took - queue_s))
        return response

    def impediment(self, models: str) -> Busy | None:
        """Why requests are refused now, whatever they hold; None when they are not.

        Args:
            models: pattern of the names of models that whoever asks may know of.
        """
        stages = (stage.impediment() for stage in self._stages.values())
        return self.members.impediment(models) or next(filter(None, stages), None)

    def explain(self) -> Explanation:
        """What runs; nothing waits here, but in the models' queues."""
        return Explanation({}, len(self._under_way), ())

    def statistics(self) -> PipelineStatistics:
        """The counts at this moment."""
        return PipelineStatistics(
            len(self._under_way), {s.name: self._step_statistics(s.name) for s in self._spec.steps}
        )

    def withdraw(self, error: HostError) -> None:
        """Refuse with this what is under way and what is still to come."""
        self._refusal = error
        self._under_way.break_off(error)

    async def close(self, timeout_s: float | None = None) -> None:
        """Take no more requests.

        Args:
            timeout_s: where there is one, what is under way is broken off; else it has ended before.
        """
        self._refusal = self._refusal or NotReady(f"{self._name} is being unloaded", model=self._name)
        if timeout_s is not None:
            self._under_way.break_off(self._refusal)

    async def _answer(self, request: Request, urgency: float) -> Response:
        made = {Source(REQUEST, tensor.name): tensor for tensor in request.inputs}
        timings: dict[str, float] = {}
        members: dict[str, str] = {}
        skipped: list[str] = []
        for step in self._spec.steps:
            began = monotonic()
            try:
                told = await self._take(step, request, _fed(step.inputs, step.sources, made), urgency)
            except HostError as error:
                self._counts[step.name, "failed"] += 1
                raise _at(step, error) from error
            self._counts[step.name, "answered"] += 1
            self._seconds[step.name] += monotonic() - began
            made |= {Source(step.name, tensor.name): tensor for tensor in told.outputs}
            timings |= told.timings
            members |= told.members
            skipped += told.skipped
        return Response(_fed(self._spec.outputs, self._spec.sources, made), timings, tuple(skipped), members)

    async def _take(self, step: StepSpec, request: Request, inputs: tuple[Tensor, ...], urgency: float) -> Response:
        if step.stage is None:
            response = await fan_out(step, self.members.get(step, request.models), request, inputs)
            self._counts[step.name, "rows"] += rows_of(inputs, step.inputs)
            return response
        began = monotonic()
        outputs, skipped = await self._stages[step.name].run(
            inputs, request.parameters, urgency, request.deadline, request.tenant
        )
        return Response(outputs, {step.name: monotonic() - began}, (step.name,) if skipped else ())

    def _step_statistics(self, name: str) -> StepStatistics:
        counts, stage = self._counts, self._stages.get(name)
        return StepStatistics(
            counts[name, "answered"], counts[name, "failed"], counts[name, "rows"], self._seconds[name],
            stage.statistics() if stage else None,
        )  # fmt: skip


def _fed(specs: Sequence[TensorSpec], sources: Sequence[Source], made: Mapping[Source, Tensor]) -> tuple[Tensor, ...]:
    """The tensors that sources have made, under the names and in the order of these specs.

    Raises:
        RequestInvalid: a tensor of the request has another shape.
        ModelFailed: a tensor that a step made has.
    """
    axes: dict[str, int] = {}
    fed: list[Tensor] = []
    for spec, source in zip(specs, sources, strict=True):
        tensor = made[source]
        try:
            check_shape(spec, tensor.shape, axes)
        except RequestInvalid as error:
            if source.step == REQUEST:
                raise
            raise ModelFailed(f"{source} came out in another shape than is signed for: {error.message}") from error
        fed.append(Tensor(spec.name, tensor.dtype, tensor.shape, tensor.data))
    return tuple(fed)


def _at(step: StepSpec, error: HostError) -> HostError:
    """The error, saying at which step; a model that ceased to serve meanwhile is a member that is missing."""
    if isinstance(error, ABSENT) and not isinstance(error, MemberUnavailable):
        return unavailable(step, error.message)
    told = copy(error)
    if not isinstance(error, MemberUnavailable):  # which says it already
        told.message, told.data = f"step {step.name!r}: {error.message}", {**error.data, "step": step.name}
    return told
