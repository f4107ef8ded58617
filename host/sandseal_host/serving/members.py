"""A pipeline's members: the models that its steps name, found when they are asked and never held longer."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from sandseal_host.errors import Busy, HostError, MemberUnavailable, ModelUnknown, NotReady, Revoked
from sandseal_host.serving.request import Request, Response, covers
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_signing.manifest import Manifest
from sandseal_signing.pipeline import PipelineSpec, StepSpec
from sandseal_signing.variants import Precision

_MAX_JUDGED = 1024

ABSENT = (ModelUnknown, NotReady, Revoked)
"""What a model raises that does not serve."""


class Member(Protocol):
    """A model that serves, as a pipeline sees it (`Model`)."""

    @property
    def manifest(self) -> Manifest:
        """What it takes and gives."""
        ...

    @property
    def bundle_id(self) -> str:
        """The digest of the bundle that it came in."""
        ...

    @property
    def precision(self) -> Precision | None:
        """Of the variant that serves; None for a model that has but one graph."""
        ...

    @property
    def settings(self) -> SchedulerSettings:
        """How it is batched and queued."""
        ...

    async def infer(self, request: Request) -> Response:
        """Answer a request; a cancelled caller takes it back."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Keep it from being unloaded meanwhile."""
        ...

    def impediment(self) -> Busy | None:
        """Why it refuses every request now."""
        ...


Find = Callable[[str, str], Member]
"""The model of a name that serves, or that of this bundle where its id is not empty; raises as `LiveModels.get`."""


class Members:
    """Finds the models of a pipeline's steps.

    Args:
        spec: the pipeline's.
        find: the host's models.
    """

    def __init__(self, spec: PipelineSpec, find: Find) -> None:
        self._steps, self._find = spec.members, find
        self._judged: dict[tuple[str, str], str | None] = {}  # by step and bundle: what is wrong with it

    def get(self, step: StepSpec, models: str) -> Member:
        """The model of a step; ask it in the same turn of the loop, or within `hold`.

        Args:
            models: pattern of the names that whoever asks may know of; another one is as if it were not there.

        Raises:
            MemberUnavailable: it does not serve, or is not what the step is signed for.
        """
        try:
            if not covers(models, step.model):
                raise ModelUnknown(f"there is no model {step.model!r}", model=step.model)
            member = self._find(step.model, step.bundle)
        except ABSENT as error:
            raise unavailable(step, error.message) from error
        key = step.name, member.bundle_id
        if key not in self._judged:
            if len(self._judged) >= _MAX_JUDGED:
                self._judged.clear()
            self._judged[key] = _misfit(step, member.manifest)
        if (why := self._judged[key]) is not None:
            raise unavailable(step, why)
        return member

    def waiting(self, models: str) -> MemberUnavailable | None:
        """Which of them do not serve, and why; None: all do."""
        return _together(self._absence(step, models) for step in self._steps)

    def impediment(self, models: str) -> MemberUnavailable | None:
        """Which of them answer no request now, and why; None: all do."""
        return self.waiting(models) or _together(self._impediment(step, models) for step in self._steps)

    @property
    def precision(self) -> Precision | None:
        """The coarsest that one of them serves in; None where each that serves has but one graph."""
        found: list[Precision] = []
        for step in self._steps:
            try:
                precision = self._find(step.model, step.bundle).precision
            except HostError:
                continue
            found += [precision] if precision else []
        return min(found, key=list(Precision).index, default=None)

    def _absence(self, step: StepSpec, models: str) -> MemberUnavailable | None:
        try:
            self.get(step, models)
        except MemberUnavailable as error:
            return error
        return None

    def _impediment(self, step: StepSpec, models: str) -> MemberUnavailable | None:
        impediment = self.get(step, models).impediment()
        return None if impediment is None else unavailable(step, impediment.message)


def unavailable(step: StepSpec, why: str) -> MemberUnavailable:
    """The error that tells why a step has no model."""
    return MemberUnavailable(f"step {step.name!r} needs model {step.model!r}: {why}", step=step.name, model=step.model)


def _together(errors: Iterable[MemberUnavailable | None]) -> MemberUnavailable | None:
    found = [error for error in errors if error is not None]
    if not found:
        return None
    return MemberUnavailable("; ".join(error.message for error in found), waiting=[error.data for error in found])


def _misfit(step: StepSpec, manifest: Manifest) -> str | None:
    """Why a model cannot be the step's, whatever state it is in."""
    if manifest.pipeline is not None:
        return "it is itself a pipeline"
    if manifest.generation is not None:
        return "it generates text"
    if manifest.model.state:
        return "it goes through sequences"
    why = step.misfit(manifest.inputs, manifest.outputs)
    return None if why is None else f"it is not the model that the pipeline was made for: {why}"
