"""The figures of *Generation*: tokens a second beside other engines, and what a flood does to those in a hurry.

All in one process and without HTTP, on SmolLM2-135M-Instruct with 8-bit weights.
"""

import asyncio
import itertools
import statistics
from collections.abc import Iterator, Sequence
from functools import partial

import uvloop
from demo import PACKAGES

from bench import generation_parts, text_files, text_model, text_peers
from bench.figure import Figure, Measure
from sandseal_host.runtime.memory import resident_bytes
from sandseal_host.serving.generation.lane import GenerationLane
from sandseal_host.serving.request import BATCH, REALTIME
from sandseal_sdk.decoders.precision import Precision

ROUNDS = 3
STREAMS = (1, 4, 8, 16)
GOALS = {1: 1.0, 8: 1.5}  # of ours over each of the others, by streams
TOKENS = 64
PEERS = (
    ("llama.cpp", "Q4_1", text_model.gguf),
    ("llama.cpp", "Q8_0", text_files.gguf_q8),
    ("openvino-genai", "Q4_1", text_model.gguf),
    ("openvino-genai", "Q8_0", text_files.gguf_q8),
    ("onnxruntime-genai", "int4", partial(text_files.genai_folder, Precision.INT4)),
    ("onnxruntime-genai", "our int8", partial(text_files.genai_folder, Precision.INT8)),
)


def beside_peers() -> Iterator[Figure]:
    """Tokens a second of 1 to 16 streams, against each engine that can be installed; both sides in turn."""
    ours: dict[int, list[float]] = {streams: [] for streams in STREAMS}
    with text_peers.opened(PEERS, PACKAGES / "venvs") as peers:
        theirs: dict[tuple[str, int], list[float]] = {(peer.name, n): [] for peer in peers for n in STREAMS}
        for _ in range(ROUNDS):
            speeds = uvloop.run(_speeds())
            for streams in STREAMS:
                ours[streams].append(speeds[streams])
                for peer in peers:
                    theirs[peer.name, streams].append(peer.speed(streams, TOKENS))
    for streams in STREAMS:
        own = statistics.median(ours[streams])
        yield Figure(f"tokens/s, {streams} streams", own, "tok/s", 0.0, True, "8-bit, 2 threads")
        for peer in peers:
            other = statistics.median(theirs[peer.name, streams])
            name, detail = f"over {peer.name}, {streams} streams", f"{own:.0f} against {other:.0f} tok/s"
            yield Figure(name, own / other, "times", GOALS.get(streams, 0.0), True, detail)


async def _speeds() -> dict[int, float]:
    async with text_model.lane(text_model.bundle()) as lane:
        await text_model.throughput(lane, 2, 4)
        return {streams: await text_model.throughput(lane, streams, TOKENS) for streams in STREAMS}


def under_a_flood() -> Iterator[Figure]:
    """Two realtime streams alone, and among batch-class prompts that never end."""
    alone, among, chunk_s = uvloop.run(_flood())
    means, step_s = [statistics.mean(gaps) for gaps in (alone, among)], statistics.median(alone)
    detail = f"{means[1] * 1e3:.1f} against {means[0] * 1e3:.1f} ms"
    yield Figure("mean gap of realtime streams in a flood", means[1] / means[0], "times", 1.1, False, detail)
    worst = sorted(among)[int(0.99 * len(among))]
    detail = f"p99 {worst * 1e3:.1f} ms; a step {step_s * 1e3:.1f}, a chunk {chunk_s * 1e3:.1f} ms"
    yield Figure("p99 gap over one step and one chunk", worst / (step_s + chunk_s), "times", 1.0, False, detail)


async def _flood() -> tuple[Sequence[float], Sequence[float], float]:
    async with text_model.lane(text_model.bundle(), slots=8) as lane:
        chunk_s = min([await _first(lane, 128) for _ in range(3)])
        alone = await _gaps(lane)
        flood = [asyncio.create_task(text_model.times(lane, text_model.request(60, 300, BATCH))) for _ in range(40)]
        among = await _gaps(lane)
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
    return alone, among, chunk_s


async def _first(lane: GenerationLane, prompt: int) -> float:
    """Seconds to the only token of a realtime prompt."""
    asked = text_model.request(1, prompt, REALTIME)
    return (await text_model.times(lane, asked))[0] - asked.arrival


async def _gaps(lane: GenerationLane) -> list[float]:
    """Seconds between the tokens of two realtime streams."""
    streams = [text_model.times(lane, text_model.request(100, service_class=REALTIME, logprobs=0)) for _ in range(2)]
    return [b - a for times in await asyncio.gather(*streams) for a, b in itertools.pairwise(times)]


def first_token() -> Iterator[Figure]:
    """A realtime prompt's first token on a full lane, over that on an idle one."""

    async def seconds() -> tuple[float, float]:
        async with text_model.lane(text_model.bundle(), slots=8) as lane:
            idle = statistics.median([await _first(lane, text_model.PROMPT) for _ in range(5)])
            busy = [
                asyncio.create_task(text_model.times(lane, text_model.request(300, service_class=BATCH)))
                for _ in range(12)
            ]
            await asyncio.sleep(1)
            loaded = [await _first(lane, text_model.PROMPT) for _ in range(5)]
            for task in busy:
                task.cancel()
            await asyncio.gather(*busy, return_exceptions=True)
        return idle, statistics.median(loaded)

    idle, loaded = uvloop.run(seconds())
    detail = f"{loaded * 1e3:.0f} ms under load, {idle * 1e3:.0f} ms idle"
    yield Figure("time to first token, under load over idle", loaded / idle, "times", 3.0, False, detail)


def memory() -> Iterator[Figure]:
    """What 200 short answers add to the process, after 50 that warmed it up."""

    async def growth() -> int:
        async with text_model.lane(text_model.bundle(), slots=8) as lane:
            await asyncio.gather(*(text_model.times(lane, text_model.request(4, 16)) for _ in range(50)))
            before = resident_bytes()
            for _ in range(4):
                await asyncio.gather(*(text_model.times(lane, text_model.request(4, 16)) for _ in range(50)))
            return resident_bytes() - before

    yield Figure("memory grown by 200 answers", uvloop.run(growth()) / (1 << 20), "MiB", 16, False, "")


MEASURES = (
    Measure("tokens a second", beside_peers),
    Measure("flood", under_a_flood),
    Measure("first token", first_token),
    Measure("memory", memory),
    Measure("sampling", generation_parts.sampling),
    Measure("logits plugins", generation_parts.logits_plugins),
)
