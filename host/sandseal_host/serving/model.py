"""A model version as it is served: pre stage, lane, post stage, and the states around them."""

import asyncio
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sandseal_host.errors import CircuitOpen, HostError, NotReady, PluginBadOutput, RequestInvalid, Revoked
from sandseal_host.serving.claim import Claim, hand_over
from sandseal_host.serving.guarded_stage import GuardedStage, Staged, StageStatistics
from sandseal_host.serving.lane import Lane, LaneStatistics
from sandseal_host.serving.ports import BatchRunner, Cancellable, Closeable, Waiter
from sandseal_host.serving.request import Request, Response
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.states import ModelState
from sandseal_host.serving.tally import Served
from sandseal_host.serving.turns import Turns
from sandseal_host.tensors import KINDS, Tensor
from sandseal_signing.manifest import Manifest, TensorSpec


@dataclass(frozen=True, slots=True)
class ModelParts:
    """What a loaded model runs on; the model closes them when it is unloaded.

    Args:
        runner: the session.
        lane: its queue and threads.
        pre: makes the model's inputs out of the public ones.
        post: makes the public outputs out of the model's.
        resident: by device: bytes that loading them took.
        bundle: what the runner still reads from.
    """

    runner: BatchRunner
    lane: Lane
    pre: GuardedStage | None = None
    post: GuardedStage | None = None
    resident: Mapping[str, int] = field(default_factory=dict)
    bundle: Closeable | None = None

    @property
    def staged(self) -> bool:
        """Whether there is more to a request's way than the lane."""
        return self.pre is not None or self.post is not None

    def close(self) -> None:
        """Give all memory back, and last of all what it lay in; blocks."""
        for part in (self.pre, self.post, self.runner, self.bundle):
            if part is not None:
                part.close()


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """A model's counts.

    Args:
        state: the present one.
        in_flight: requests that are not answered yet.
        resident_bytes: how much the process grew by loading it.
        lane: None until it is loaded.
        pre, post: None until it is loaded, and without such a stage.
    """

    state: ModelState
    in_flight: int
    resident_bytes: int
    lane: LaneStatistics | None
    pre: StageStatistics | None = None
    post: StageStatistics | None = None


class Model:
    """One version of one model, from the moment its load begins until its memory is back.

    Args:
        manifest: signed; says what the model is called, takes and gives.
        bundle_id: of the bundle that it comes from.
        accepted_at: seconds since 1970; the version that was accepted last is the newest.
    """

    def __init__(self, manifest: Manifest, bundle_id: str, accepted_at: float = 0.0) -> None:
        self.manifest = manifest
        self.bundle_id = bundle_id
        self.accepted_at = accepted_at
        self.state = ModelState.PENDING
        self.reason = ""  # why it failed, or was revoked
        self._refusal: HostError | None = None
        self._parts: ModelParts | None = None
        self._turns: Turns  # in the parts that are stages
        self._in_flight = 0
        self._pre_s = self._post_s = 0.0
        self._used = time.monotonic()
        self._quiet = asyncio.Event()
        self._before_lane: set[asyncio.Task[object]] = set()  # requests that are in the pre stage, or wait for it

    @property
    def name(self) -> str:
        """The model's name."""
        return self.manifest.name

    @property
    def version(self) -> int:
        """The model's version."""
        return self.manifest.version

    def advance(self, state: ModelState) -> None:
        """Go on to the next state.

        Raises:
            HostError: the state does not follow on the present one.
        """
        if not self.state.leads_to(state):
            raise HostError(f"{self!r} cannot become {state}")
        self.state = state

    def serve(self, parts: ModelParts) -> None:
        """Become ready on these parts."""
        self.advance(ModelState.READY)
        self._parts, self._turns = parts, Turns(parts.lane.settings)

    def fail(self, reason: str) -> None:
        """Note that the load failed, and why."""
        self.advance(ModelState.FAILED)
        self.reason = reason

    def revoke(self, reason: str) -> None:
        """Withdraw the model because it is no longer trusted."""
        self.withdraw(Revoked(reason))

    def withdraw(self, error: HostError) -> None:
        """Refuse every request whose batch is not running yet, for good; `drain` and `unload` end the rest.

        Args:
            error: what they are refused with; the model is revoked by a `Revoked`, and failed by any other.
        """
        if self.state.final:
            return
        self.advance(ModelState.REVOKED if isinstance(error, Revoked) else ModelState.FAILED)
        self.reason, self._refusal = error.message, copy(error)
        self._refusal.data = {**error.data, "model": self.name}
        for task in self._before_lane:
            task.cancel()
        if self._parts is not None:
            self._parts.lane.withdraw(self._refusal)

    @property
    def idle_s(self) -> float:
        """Seconds since it answered last, or was made; 0 while something is in flight."""
        return 0.0 if self._in_flight else time.monotonic() - self._used

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the model from being unloaded, for callers that await something between `get` and `infer`."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._release()

    async def infer(self, request: Request) -> Response:
        """Answer a request: pre stage, lane, post stage; `timings` has the seconds of each.

        A draining model still answers: whoever got hold of it before it was replaced loses nothing.

        Raises:
            NotReady: the model is not loaded, or no longer.
            HostError: it was withdrawn, and the request's batch was not running yet.
            HostError: as its stages and lane raise.
        """
        parts = self._usable()
        self._in_flight += 1
        try:
            if parts.staged or not request.rows:
                return await self._staged(parts, request)
            return await parts.lane.run(request)
        finally:
            self._release()

    def begin(self, request: Request, waiter: Waiter) -> Cancellable:
        """Answer a request through `waiter`, without a task of its own where the lane is all of its way.

        Returns:
            What takes the request back once the waiter has gone.

        Raises:
            HostError: as `infer` raises before it waits.
        """
        parts = self._usable()
        if parts.staged or not request.rows:
            task = asyncio.get_running_loop().create_task(self.infer(request))
            task.add_done_callback(partial(hand_over, waiter))
            return task
        claim = Claim(parts.lane, waiter, self._release)
        claim.submit(request)
        self._in_flight += 1
        return claim

    async def drain(self, timeout_s: float | None = None) -> None:
        """Answer what is in flight.

        Args:
            timeout_s: seconds after which requests that still wait for their batch are refused.
        """
        if not self.withdrawn:
            self.advance(ModelState.DRAINING)
        self._note_quiet()
        try:
            await asyncio.wait_for(self._quiet.wait(), timeout_s)
        except TimeoutError:
            if self._parts is not None:
                await self._parts.lane.close(0)
            await self._quiet.wait()

    async def unload(self) -> None:
        """Give all memory back; the model must have been drained. One that was withdrawn stays so."""
        if not self.withdrawn:
            self.advance(ModelState.UNLOADED)
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.lane.close()
            await asyncio.to_thread(parts.close)

    @property
    def withdrawn(self) -> bool:
        """Whether it was taken out of service; see `withdraw`."""
        return self._refusal is not None

    def refusal(self) -> HostError | None:
        """What requests are refused with since the model was withdrawn; None while it was not."""
        return copy(self._refusal)

    def impediment(self) -> CircuitOpen | None:
        """Why a ready model refuses requests now, whatever they hold: a stage's circuit is open."""
        stages = (self._parts.pre, self._parts.post) if self._parts else ()
        for stage in stages:
            if stage is not None and (impediment := stage.impediment()) is not None:
                return impediment
        return None

    def statistics(self) -> ModelStatistics:
        """The counts at this moment."""
        if self._parts is None:
            return ModelStatistics(self.state, self._in_flight, 0, None)
        parts = self._parts
        pre, post = (stage.statistics() if stage else None for stage in (parts.pre, parts.post))
        lane = parts.lane.statistics()
        return ModelStatistics(self.state, self._in_flight, sum(parts.resident.values()), lane, pre, post)

    @property
    def settings(self) -> SchedulerSettings:
        """How it is batched and queued.

        Raises:
            NotReady: the model is not loaded, or no longer.
        """
        return self._usable().lane.settings

    def served(self) -> Served:
        """What it answered since it was loaded.

        Raises:
            NotReady: the model is not loaded, or no longer.
        """
        parts = self._usable()
        tally, scheduler = parts.lane.tally, parts.lane.statistics().scheduler
        return Served(
            requests=tally.requests,
            rows=tally.rows,
            failed=tally.failed + scheduler.expired + sum(scheduler.refused.values()),
            queue_s=tally.queue_s,
            run_s=tally.run_s,
            pre_s=self._pre_s,
            post_s=self._post_s,
            last=tally.last,
            batches=dict(tally.batches),
            resident=parts.resident,
        )

    def __repr__(self) -> str:
        return f"model {self.name!r} version {self.version}"

    def _usable(self) -> ModelParts:
        parts = self._parts
        if self._refusal is not None:
            raise copy(self._refusal)
        if parts is None:
            raise NotReady(f"{self!r} is {self.state}", model=self.name, state=str(self.state))
        return parts

    async def _staged(self, parts: ModelParts, request: Request) -> Response:
        timings: dict[str, float] = {}
        left_out: list[str] = []
        if parts.pre is not None:
            began = time.monotonic()
            with self._turns.take(request) as urgency:
                inputs, skipped = await self._revocable(
                    parts.pre.run(request.inputs, request.parameters, urgency, request.deadline, request.tenant)
                )
            request = replace(request, inputs=inputs, rows=self._rows(inputs))
            timings["pre"] = time.monotonic() - began
            self._pre_s += timings["pre"]
            if skipped:
                left_out.append("pre")
        response = await parts.lane.run(request) if request.rows else self._nothing(request)
        timings.update(response.timings)
        outputs = response.outputs
        if parts.post is not None:
            began = time.monotonic()
            with self._turns.take(request, admitted=True) as urgency:
                outputs, skipped = await parts.post.run(
                    outputs, request.parameters, urgency, request.deadline, request.tenant
                )
            timings["post"] = time.monotonic() - began
            self._post_s += timings["post"]
            if skipped:
                left_out.append("post")
        return Response(outputs, timings, tuple(left_out))

    async def _revocable(self, work: Awaitable[Staged]) -> Staged:
        """Await what comes before the lane; `revoke` breaks it off."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # every coroutine of a loop runs in a task
        self._before_lane.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if (refusal := self.refusal()) is not None and task.uncancel() == 0:  # nobody but `withdraw` cancelled it
                raise refusal from None
            raise
        finally:
            self._before_lane.discard(task)

    def _rows(self, inputs: tuple[Tensor, ...]) -> int:
        """Rows of the model's inputs as the pre stage made them."""
        specs = self.manifest.model.inputs
        rows = {t.rows for t, spec in zip(inputs, specs, strict=True) if spec.batched} or {1}
        if len(rows) > 1:
            raise PluginBadOutput(f"the pre stage made inputs of {sorted(rows)} rows for one request")
        return rows.pop()

    def _nothing(self, request: Request) -> Response:
        """The answer to no rows, without a run: outputs without rows, free axes as in the inputs or 0.

        Raises:
            RequestInvalid: an output does not count rows, so that there is something to run for.
        """
        for spec in self.manifest.model.outputs:
            if not spec.batched:  # it would be as large as whoever asks likes
                raise RequestInvalid(
                    f"the request has no rows, and output {spec.name!r} is not counted in rows",
                    hint="send at least one row",
                )
        sizes = {
            axis: size
            for tensor, spec in zip(request.inputs, self.manifest.model.inputs, strict=True)
            for axis, size in zip(spec.shape, tensor.shape, strict=True)
        }
        return Response(tuple(_empty(spec, sizes) for spec in self.manifest.model.outputs))

    def _release(self) -> None:
        self._in_flight -= 1
        self._used = time.monotonic()
        self._note_quiet()

    def _note_quiet(self) -> None:
        if (self.state is ModelState.DRAINING or self.withdrawn) and not self._in_flight:
            self._quiet.set()


def _empty(spec: TensorSpec, sizes: Mapping[int | str, int]) -> Tensor:
    shape = tuple(axis if isinstance(axis, int) else sizes.get(axis, 0) for axis in spec.shape)
    return Tensor(spec.name, spec.dtype, shape, np.zeros(shape, KINDS[spec.dtype].numpy))
