"""Prompts, and the tokens that each has alone, for tests of generation with the tiny decoder."""

import asyncio
from functools import cache
from threading import Lock

import numpy as np

from sandseal_host.runtime.decoder import Decoder
from sandseal_host.serving.generation.detokeniser import Detokeniser
from sandseal_host.serving.generation.engine import Engine
from sandseal_host.serving.generation.lane import GenerationLane
from sandseal_host.serving.generation.request import GenerationRequest
from sandseal_host.serving.generation.sampling import Sampler, Sampling
from sandseal_host.serving.generation.scheduler import GenerationScheduler
from sandseal_host.serving.generation.sequence import Sequence
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.generation.stream import Stream
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.generation.writer import Writer
from sandseal_host.serving.request import STANDARD, ServiceClass
from sandseal_sdk.build import BuildResult
from support.bundles import seal
from support.clock import Clock
from support.decoders import CONTEXT, VOCAB, decoder, opened
from support.tokenizer_files import END, TEMPLATE, byte_level

GREEDY = Sampling(temperature=0.0)
VOCABULARY = Vocabulary([bytes([i]) for i in range(256)])


def request(
    number: int,
    prompt: tuple[int, ...] = (1, 2, 3),
    *,
    max_tokens: int = 8,
    sampling: Sampling = GREEDY,
    service_class: ServiceClass = STANDARD,
    tenant: str = "t",
    arrival: float = 0.0,
    **what,
) -> GenerationRequest:
    """A generation of a few tokens."""
    return GenerationRequest(number, tuple(prompt), sampling, max_tokens, service_class, tenant, arrival, **what)


def prompt_of(length: int, seed: int = 0) -> tuple[int, ...]:
    """Some tokens."""
    return tuple(np.random.default_rng(seed).integers(0, VOCAB, length).tolist())


@cache
def alone(prompt: tuple[int, ...], max_tokens: int, seed: int | None = None) -> tuple[int, ...]:
    """What a prompt's tokens are on the tiny decoder, which runs nothing else: greedy, or drawn with a seed."""
    with opened(decoder(), slots=1) as single:
        return continued(single, prompt, max_tokens, seed)


def continued(runner: Decoder, prompt: tuple[int, ...], max_tokens: int, seed: int | None = None) -> tuple[int, ...]:
    """A prompt's tokens, one at a time in the first slot."""
    sampler = Sampler(runner.vocab)
    row, tokens = sampler.row(sampling(seed), prompt), []
    logits = runner.prefill(0, prompt, 0)[None]
    for position in range(len(prompt), len(prompt) + max_tokens):
        (choice,) = sampler.sample(logits, [row])
        tokens.append(choice.token)
        if position < runner.context:
            logits = runner.decode([choice.token], [position])
    return tuple(tokens)


def sampling(seed: int | None) -> Sampling:
    """Greedy, or with a seed."""
    return GREEDY if seed is None else Sampling(temperature=1.0, seed=seed)


async def tokens_of(stream: Stream) -> tuple[int, ...]:
    """All tokens of a stream."""
    return tuple([token async for piece in stream for token in piece.tokens])


class Lanes:
    """A lane on a tiny decoder, closed at the end of an `async with`."""

    def __init__(self, logits=None, **settings) -> None:
        self._logits = logits
        self._settings = GenerationSettings(**{"slots": 3, "context": CONTEXT, "chunk": 16, **settings})

    async def __aenter__(self) -> GenerationLane:
        self.decoder = opened(decoder(), slots=self._settings.slots + 1)
        self.lane = GenerationLane(self.decoder, VOCABULARY, self._settings, name="tiny", logits=self._logits)
        return self.lane

    async def __aexit__(self, *_) -> None:
        await self.lane.close(0)
        self.decoder.close()


def run(work) -> None:
    """Run a test's coroutine, which must not hang."""
    asyncio.run(asyncio.wait_for(work, 60))


def generating_seal(
    keys,
    name: str = "acme.writer",
    version: int = 1,
    logits: BuildResult | None = None,
    template: bytes = TEMPLATE,
) -> bytes:
    """A bundle of the tiny decoder with a tokenizer and a chat template, and maybe a logits plugin."""
    model = decoder()
    files = {model.spec.file: model.data, "tokenizer.json": byte_level(), "chat.jinja": template}
    io = {f"{side}puts": [{"name": f"text_{side}put", "dtype": "BYTES", "shape": [1]}] for side in ("in", "out")}
    generation = {
        "tokenizer": "tokenizer.json", "chat_template": "chat.jinja", "context": CONTEXT, "stop_ids": [END]
    }  # fmt: skip
    if logits is not None:
        files[logits.spec.plugin] = logits.wasm.read_bytes()
        stage = {"plugin": logits.spec.plugin, "function": logits.spec.function, "imports": [*logits.spec.imports]}
        generation["logits"] = stage
    described = {"file": model.spec.file, "domains": list(model.spec.domains), **io}
    return seal(keys, name, version, files=files, model=described, generation=generation)


class Driven:
    """An engine that a test steps by hand, at times that it sets; what streams would get, it collects.

    Args:
        runner: a decoder with one slot more than the settings say.
    """

    def __init__(self, runner, **settings) -> None:
        bounds = GenerationSettings(**{"slots": runner.slots - 1, "context": CONTEXT, "chunk": 16, **settings})
        self.clock, self.spare = Clock(), float("inf")
        self.scheduler = GenerationScheduler(bounds)
        self.engine = Engine(runner, self.scheduler, bounds, Lock(), lambda: self.spare, self.clock)
        self.sequences: dict[int, Sequence] = {}

    def join(self, number: int, prompt: tuple[int, ...], **what) -> Sequence:
        """Let a generation come."""
        asked = request(number, prompt, arrival=self.clock.now, **what)
        sequence = self.sequences[number] = Sequence(asked)
        row = self.engine.sampler.row(asked.sampling, prompt)
        sequence.answer = Writer(asked, None, Detokeniser(VOCABULARY), row)
        self.scheduler.add(sequence, self.clock.now)
        return sequence

    def step(self) -> bool:
        """Do what is planned next; whether there was something."""
        step = self.scheduler.plan(self.clock.now)
        self.engine.execute(step)
        self.clock.now += 0.01
        return step.run is not None or bool(step.actions)

    def finish(self) -> None:
        """Do all that is left."""
        for sequence in self.sequences.values():
            sequence.behind = False
        while self.step():
            pass

    def answer(self, number: int) -> tuple[int, ...]:
        """The tokens that a generation has got."""
        sequence = self.sequences[number]
        return tuple(sequence.tokens[len(sequence.request.prompt) :])
