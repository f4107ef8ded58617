"""What `sandseal tune` chooses, against plain settings and the best of every combination, on one recording."""

import asyncio
import io
import os
import random
from collections.abc import Iterator

from bench.figure import Figure, interleave
from sandseal_host.runtime.device import Device
from sandseal_host.serving.recording import Arrival
from sandseal_host.tuning.candidate import Candidate, Goal, Outcome
from sandseal_host.tuning.profile import Profile
from sandseal_host.tuning.replay import Replay
from sandseal_host.tuning.tune import try_candidate, tune
from sandseal_signing.bundle import Bundle, InMemory, open_bundle
from sandseal_signing.seal import SealReader
from sandseal_signing.verdict import Moment
from support.bundles import seal, trust
from support.hostile_models import described
from support.keys import ed25519_key
from support.onnx_models import encoder

SECONDS = float(os.environ.get("SANDSEAL_BENCH_SECONDS", "1"))  # for each of some 150 combinations
ROUNDS = 5
MAX_ROWS, DELAY_US, RATE = 8, 1000, 40  # requests a second, which one thread can answer
_CPU = Device.parse("cpu")


def tuning() -> Iterator[Figure]:
    """For either goal: what was chosen, measured again in turn with the others."""
    bundle, profile = _bundle(), _recording()
    grid = tune(bundle, profile, _CPU, Goal.LATENCY, seconds=SECONDS, progress=lambda *_: None, exhaustive=True)
    plain = grid.trials[0][0]
    replay = Replay(bundle.manifest.model.inputs, profile.arrivals)
    for goal in Goal:
        tuned = tune(bundle, profile, _CPU, goal, seconds=SECONDS, progress=lambda *_: None)
        chosen, best = tuned.best[0], max(grid.trials, key=lambda trial: _merit(trial[1], goal))[0]

        def merit(candidate: Candidate, goal: Goal = goal) -> float:
            return _merit(asyncio.run(try_candidate(bundle, candidate, _CPU, replay, 2 * SECONDS)), goal)

        ours, theirs, ideal = interleave(
            ROUNDS, *(lambda c=candidate, m=merit: m(c) for candidate in (chosen, plain, best))
        )
        shown = f"{len(tuned.trials)} of {len(grid.trials)} tried: {' '.join(chosen.cells())}"
        yield Figure(f"tuned for {goal} / plain settings", ours / theirs, "ratio", 0.95, True, shown)
        yield Figure(f"tuned for {goal} / the best of all", ours / ideal, "ratio", 0.9, True, " ".join(best.cells()))


def _merit(outcome: Outcome, goal: Goal) -> float:
    """More is better: rows a second, or so many 99th percentiles in a second; a refusal counts as a minute."""
    return outcome.rows_s if goal is Goal.THROUGHPUT else 1e3 / min(outcome.p99_ms, 60e3)


def _bundle() -> Bundle:
    model, alice = encoder(), ed25519_key("alice")
    members = described(model) | {"batching": {"max_rows": MAX_ROWS, "max_delay_us": DELAY_US}}
    archive = seal([alice], "acme.encoder", files={"model.onnx": model.data}, model=members)
    return open_bundle(SealReader(io.BytesIO(archive)), trust({"alice": alice}), lambda _: Moment.current(), InMemory())


def _recording() -> Profile:
    """Arrivals of one or two rows at random times."""
    source, at, arrivals = random.Random(0), 0.0, []
    (spec,) = encoder().spec.inputs
    while at < 10:
        at += source.expovariate(RATE)
        arrivals.append(Arrival(at, "standard", ((source.choice((1, 1, 2)), *spec.shape[1:]),)))
    return Profile("acme.encoder", at, tuple(arrivals))
