"""The figures of *Beyond one model*: what a kept answer, a step of a sequence and a pipeline cost.

The first two in one process and without HTTP, so that the figures are the core's own.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import uvloop

from bench import lanes
from bench.beyond_graphs import saved_graphs
from bench.beyond_tuning import tuning
from bench.beyond_variants import variants
from bench.figure import Figure, Measure, interleave
from bench.pipelines import PIPELINES
from sandseal_host.serving.cache import ModelCache, ResponseCache
from sandseal_host.serving.lost_sequences import LostSequences
from sandseal_host.serving.request import Request, Response, Step
from sandseal_host.serving.sequences import Sequences
from sandseal_signing.state import StateSpec
from support.onnx_models import OnnxModel, conv_net, mlp, summing

ROUNDS = 5
SECONDS = float(os.environ.get("SANDSEAL_BENCH_SECONDS", "1"))


def kept() -> Iterator[Figure]:
    """A kept answer against a run, for a request of 512 bytes and one of an image."""
    for name, make, goal in (("tiny MLP", mlp, 0.8), ("conv net on an image", conv_net, 0.5)):
        model = make()

        async def seconds(limit: int, model: OnnxModel = model) -> float:
            with lanes.opened(model) as session:
                lane = lanes.lane(session)
                cache = ModelCache(ResponseCache(limit), "bundle")
                taken = await _each(lambda request: cache.answer(request, lane.run), lanes.row(model))
                await lane.close()
            return taken

        hit, miss = interleave(ROUNDS, lambda s=seconds: uvloop.run(s(64 << 20)), lambda s=seconds: uvloop.run(s(1)))
        detail = f"{hit * 1e6:,.0f} against {miss * 1e6:,.0f} us"
        yield Figure(f"a kept answer / a run, {name}", hit / miss, "ratio", goal, False, detail)


def sequences() -> Iterator[Figure]:
    """A step of a sequence against a run of the same graph whose client holds the state."""
    model = summing(128)
    spec = replace(model.spec, state=(StateSpec("sum", "next"),))

    async def plain() -> float:
        with lanes.opened(model) as session:
            lane, (total,) = lanes.lane(session), lanes.row(model)
            taken = await _each(lane.run, (total, replace(total, name="x")))
            await lane.close()
        return taken

    async def stepped() -> float:
        with lanes.opened(model) as session:
            lane, (total,) = lanes.lane(session), lanes.row(model)
            open_ones = Sequences("bench", spec, idle_s=60.0, most=8, most_bytes=1 << 20, lost=LostSequences())

            async def step(request: Request) -> Response:
                start = request.id == first
                async with open_ones.step(replace(request, step=Step("s", start=start))) as sequence:
                    response = await lane.run(sequence.feed(request))
                    return Response(sequence.advance(1, response.outputs), response.timings)

            inputs = (replace(total, name="x"),)
            first = lanes.request(inputs, 0.0).id + 1
            taken = await _each(step, inputs)
            await lane.close()
        return taken

    ours, bare = interleave(ROUNDS, lambda: uvloop.run(stepped()), lambda: uvloop.run(plain()))
    detail = f"{ours * 1e6:,.0f} against {bare * 1e6:,.0f} us"
    yield Figure("a sequence's step / a run, of an addition", ours / bare, "ratio", 2.0, False, detail)


async def _each(answer: Callable[[Request], Awaitable[Response]], inputs: tuple) -> float:
    """Seconds that one caller waits for each of its answers."""
    count, began = 0, time.monotonic()
    while time.monotonic() < began + SECONDS:
        await answer(lanes.request(inputs, time.monotonic()))
        count += 1
    return (time.monotonic() - began) / count


MEASURES = (
    Measure("kept answers", kept),
    Measure("sequences", sequences),
    PIPELINES,
    Measure("variants", variants),
    Measure("saved graphs", saved_graphs),
    Measure("tuning", tuning),
)
