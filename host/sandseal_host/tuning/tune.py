"""One tuning: a verified bundle's model, candidate after candidate, on one device."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandseal_host.errors import RequestInvalid
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.session import Session
from sandseal_host.runtime.variants import fitting
from sandseal_host.serving.lane import INLINE_BELOW_S, Lane
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.tuning.candidate import Candidate, Goal, Outcome, Search, Trial
from sandseal_host.tuning.profile import Profile
from sandseal_host.tuning.replay import Replay
from sandseal_signing.bundle import Bundle

Progress = Callable[[Candidate, Outcome], None]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a tuning came to: every trial in the order in which it was made, and the best for the goal."""

    trials: tuple[Trial, ...]
    best: Trial


def tune(
    bundle: Bundle,
    profile: Profile,
    device: Device,
    goal: Goal,
    *,
    seconds: float,
    progress: Progress,
    exhaustive: bool = False,
) -> Tuned:
    """Try settings on a bundle's model with a profile's arrivals.

    Args:
        bundle: verified, with its files in memory.
        device: where the model is to run; nothing else should use it meanwhile.
        seconds: for each candidate.
        progress: told of each outcome.
        exhaustive: try every candidate there is.

    Raises:
        RequestInvalid: the profile is of a model with other inputs, or that takes more rows.
        ModelInvalid, DeviceUnavailable: the model does not load.
    """
    manifest = bundle.manifest
    _check(bundle, profile)
    replay = Replay(manifest.model.inputs, profile.arrivals)
    if replay.rows > (most := manifest.model.batching.max_rows):
        raise RequestInvalid(
            f"the profile of {profile.model} has a request of {replay.rows} rows, and {manifest.name} takes {most}",
            hint="record it on a host that serves this model",
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    search = Search(cores, manifest.model.batching, goal, replay.rows)
    for candidate in search.grid() if exhaustive else search.candidates():
        outcome = asyncio.run(try_candidate(bundle, candidate, device, replay, seconds))
        search.note(candidate, outcome)
        progress(candidate, outcome)
    return Tuned(tuple(search.trials), search.best)


def write_settings(path: Path, bundle: Bundle, candidate: Candidate, goal: Goal) -> None:
    """Write a serving file for the model with what was found."""
    path.write_text(
        f"# tuned for {goal}; threads are a setting of the host: SANDSEAL_THREADS={candidate.threads}\n"
        "[[models]]\n"
        f'names = ["{bundle.manifest.name}"]\n'
        f"instances = {candidate.instances}\n"
        f"max_rows = {candidate.max_rows}\n"
        f"max_delay_us = {candidate.max_delay_us}\n"
        f'optimisation = "{candidate.optimisation}"\n',
        encoding="utf-8",
    )


def _check(bundle: Bundle, profile: Profile) -> None:
    inputs = bundle.manifest.model.inputs
    if bundle.manifest.pipeline is not None:
        raise RequestInvalid(f"{bundle.manifest.name} is a pipeline", hint="tune the models that it asks")
    for shapes in {arrival.shapes for arrival in profile.arrivals}:
        fit = len(shapes) == len(inputs) and all(
            len(shape) == len(spec.shape)
            and all(isinstance(axis, str) or axis == size for axis, size in zip(spec.shape, shape, strict=True))
            for spec, shape in zip(inputs, shapes, strict=True)
        )
        if not fit:
            raise RequestInvalid(
                f"the profile of {profile.model} has inputs of shapes {[list(shape) for shape in shapes]}, which "
                f"{bundle.manifest.name} does not take",
                hint="record it on a host that serves this model",
            )


async def try_candidate(
    bundle: Bundle, candidate: Candidate, device: Device, replay: Replay, seconds: float
) -> Outcome:
    """Load a verified bundle's model with a candidate's settings, and play the arrivals to it."""
    model = bundle.manifest.model
    chosen = model.as_variant(fitting(model, device.kind)[0])
    with Session.open(
        ModelFiles.of(chosen, bundle.files),
        device,
        threads=candidate.threads,
        optimisation=candidate.optimisation,
        max_rows=candidate.max_rows,
    ) as session:
        settings = SchedulerSettings(
            max_rows=candidate.max_rows, max_delay_s=candidate.max_delay_us / 1e6, instances=candidate.instances
        )
        on_loop = INLINE_BELOW_S if device.kind is DeviceKind.CPU else 0.0
        lane = Lane(session, settings, name=bundle.manifest.name, inline_below_s=on_loop, settle=session.settle)
        try:
            return await replay.run(lane, seconds)
        finally:
            await lane.close()
