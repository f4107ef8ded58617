"""A model version as it is served: pre stage, lane, post stage, and the states around them."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from functools import partial

from sandseal_host.errors import Busy, HostError, NotReady, PluginBadOutput, Revoked, UnsupportedRequest
from sandseal_host.serving.breakable import Breakable
from sandseal_host.serving.claim import Claim, hand_over
from sandseal_host.serving.cuts import Explanation
from sandseal_host.serving.generation.lane import GenerationLane
from sandseal_host.serving.generation.request import GenerationRequest
from sandseal_host.serving.generation.stream import Stream
from sandseal_host.serving.generation.text import Text
from sandseal_host.serving.lane import Lane
from sandseal_host.serving.no_rows import no_rows
from sandseal_host.serving.parts import ModelParts, ModelStatistics
from sandseal_host.serving.pipeline import Pipeline
from sandseal_host.serving.ports import Cancellable, Waiter
from sandseal_host.serving.recording import Recording
from sandseal_host.serving.request import Request, Response
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.sequence import Sequence
from sandseal_host.serving.states import ModelState
from sandseal_host.serving.tally import Served
from sandseal_host.serving.turns import Turns
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import Manifest
from sandseal_signing.variants import Precision


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
        self._before_lane = Breakable()  # requests that are in the pre stage, or wait for it

    @property
    def name(self) -> str:
        """The model's name."""
        return self.manifest.name

    @property
    def version(self) -> int:
        """The model's version."""
        return self.manifest.version

    @property
    def precision(self) -> Precision | None:
        """See `ModelParts`; of a pipeline, the coarsest of its models'. None as well until it is loaded."""
        if self._parts is not None and isinstance(self._parts.lane, Pipeline):
            return self._parts.lane.members.precision
        return self._parts.precision if self._parts else None

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
        self._before_lane.break_off(self._refusal)
        if self._parts is not None:
            self._parts.lane.withdraw(self._refusal)
            self._parts.forget()

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
                return await self._answer(parts, request)
            return await self._lane(parts).run(request)
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
        lane = self._lane(parts)
        claim = Claim(lane, request.id, waiter, self._release)
        lane.submit(request, claim)
        self._in_flight += 1
        return claim

    def generate(self, request: GenerationRequest) -> Stream:
        """Begin to answer a prompt; call `text` for its tokens before.

        Raises:
            NotReady: the model is not loaded, or no longer.
            UnsupportedRequest: it does not generate text.
            HostError: as `GenerationLane.generate` raises.
        """
        lane = self._usable().lane
        if not isinstance(lane, GenerationLane):
            raise self._no_text()
        self._in_flight += 1
        try:
            return lane.generate(request, self._release)
        except Exception:
            self._release()
            raise

    @property
    def text(self) -> Text:
        """What makes prompts of text and messages; to be used within `hold`.

        Raises:
            NotReady, UnsupportedRequest: see `generate`.
        """
        text = self._usable().text
        if text is None:
            raise self._no_text()
        return text

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
            parts.forget()
            await asyncio.to_thread(parts.close)

    @property
    def withdrawn(self) -> bool:
        """Whether it was taken out of service; see `withdraw`."""
        return self._refusal is not None

    def refusal(self) -> HostError | None:
        """What requests are refused with since the model was withdrawn; None while it was not."""
        return copy(self._refusal)

    def impediment(self, models: str = "*") -> Busy | None:
        """Why a ready model refuses requests now, whatever they hold: a plugin's circuit is open, or a member is away.

        Args:
            models: pattern of the names of models that whoever asks may know of.
        """
        parts = self._parts
        if parts is None:
            return None
        if isinstance(parts.lane, Pipeline):
            return parts.lane.impediment(models)
        impediments = (stage.impediment() for stage in (parts.pre, parts.post) if stage is not None)
        return next(filter(None, impediments), None)

    def statistics(self) -> ModelStatistics:
        """The counts at this moment."""
        if self._parts is None:
            return ModelStatistics(self.state, self._in_flight, 0, None)
        parts = self._parts
        pre, post = (stage.statistics() if stage else None for stage in (parts.pre, parts.post))
        lane, resident = parts.lane, sum(parts.resident.values())
        if isinstance(lane, GenerationLane):
            text = parts.text.statistics() if parts.text else None
            return ModelStatistics(self.state, self._in_flight, resident, None, pre, post, lane.statistics(), text=text)
        if isinstance(lane, Pipeline):
            return ModelStatistics(self.state, self._in_flight, resident, None, pipeline=lane.statistics())
        cache = parts.cache.statistics() if parts.cache else None
        sequences = parts.sequences.statistics() if parts.sequences else None
        return ModelStatistics(
            self.state, self._in_flight, resident, lane.statistics(), pre, post, cache=cache, sequences=sequences
        )

    @property
    def settings(self) -> SchedulerSettings:
        """How it is batched and queued.

        Raises:
            NotReady: the model is not loaded, or no longer.
        """
        return self._usable().lane.settings

    def explain(self) -> Explanation:
        """What waits and runs, and why the last batches were cut.

        Raises:
            NotReady: the model is not loaded, or no longer.
        """
        return self._usable().lane.explain()

    def recorded(self) -> AbstractContextManager[Recording]:
        """See `Lane.recorded`.

        Raises:
            NotReady: the model is not loaded, or no longer.
            UnsupportedRequest: it generates text, or is a pipeline.
        """
        lane = self._usable().lane
        if not isinstance(lane, Lane):
            raise UnsupportedRequest(f"{self.name} has no batches of its own to record")
        return lane.recorded()

    def served(self) -> Served:
        """What it answered since it was loaded.

        Raises:
            NotReady: the model is not loaded, or no longer.
        """
        return self._usable().served(self._pre_s, self._post_s)

    def __repr__(self) -> str:
        return f"model {self.name!r} version {self.version}"

    def _usable(self) -> ModelParts:
        parts = self._parts
        if self._refusal is not None:
            raise copy(self._refusal)
        if parts is None:
            raise NotReady(f"{self!r} is {self.state}", model=self.name, state=str(self.state))
        return parts

    def _lane(self, parts: ModelParts) -> Lane:
        if not isinstance(parts.lane, Lane):
            raise UnsupportedRequest(f"{self!r} generates text, which is no single answer", hint="ask it to generate")
        return parts.lane

    def _no_text(self) -> UnsupportedRequest:
        return UnsupportedRequest(f"{self!r} does not generate text", hint="ask for its inference")

    async def _answer(self, parts: ModelParts, request: Request) -> Response:
        """The answer of a model that does more than to run."""
        if isinstance(parts.lane, Pipeline):
            with self._turns.take(request) as urgency:
                return await parts.lane.run(request, urgency)
        if parts.cache is not None:
            return await parts.cache.answer(request, partial(self._staged, parts))
        if parts.sequences is not None:
            async with parts.sequences.step(request) as sequence:
                return await self._staged(parts, request, sequence)
        return await self._staged(parts, request)

    async def _staged(self, parts: ModelParts, request: Request, sequence: Sequence | None = None) -> Response:
        timings: dict[str, float] = {}
        left_out: list[str] = []
        if parts.pre is not None:
            began = time.monotonic()
            with self._turns.take(request) as urgency:
                inputs, skipped = await self._before_lane.run(
                    parts.pre.run(request.inputs, request.parameters, urgency, request.deadline, request.tenant)
                )
            request = replace(request, inputs=inputs, rows=self._rows(inputs))
            timings["pre"] = time.monotonic() - began
            self._pre_s += timings["pre"]
            if skipped:
                left_out.append("pre")
        if request.rows:
            response = await _run(self._lane(parts), request, sequence)
        else:
            model = self.manifest.model
            response = Response(no_rows(request.inputs, model.plain_inputs, model.plain_outputs))
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

    def _rows(self, inputs: tuple[Tensor, ...]) -> int:
        """Rows of the model's inputs as the pre stage made them."""
        specs = self.manifest.model.plain_inputs
        rows = {t.rows for t, spec in zip(inputs, specs, strict=True) if spec.batched} or {1}
        if len(rows) > 1:
            raise PluginBadOutput(f"the pre stage made inputs of {sorted(rows)} rows for one request")
        return rows.pop()

    def _release(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._used = time.monotonic()
            self._note_quiet()

    def _note_quiet(self) -> None:
        if (self.state is ModelState.DRAINING or self.withdrawn) and not self._in_flight:
            self._quiet.set()


async def _run(lane: Lane, request: Request, sequence: Sequence | None) -> Response:
    """Run a request, as the next step of its sequence where it is one."""
    if sequence is None:
        return await lane.run(request)
    response = await lane.run(sequence.feed(request))
    return Response(sequence.advance(request.rows, response.outputs), response.timings)
