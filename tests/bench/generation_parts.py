"""What a token costs beside the model: choosing it, and masking its logits in a sandbox."""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from bench.figure import Figure, interleave
from plugins.logits import LogitsPlugin
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.serving.generation.constraint import logits_inputs
from sandseal_host.serving.generation.sampling import Sampler, Sampling

ROWS, VOCAB = 16, 49_152
ROUNDS = 40
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "ages": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name", "ages"],
}
ANSWER = json.dumps({"name": "lorem ipsum dolor sit amet " * 8, "ages": [12, 3, 4567]}).encode()


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def sampling() -> Iterator[Figure]:
    """16 rows with temperature and top-p, as chat clients send them, against the exponential of the same logits."""
    logits = (np.random.default_rng(0).standard_normal((ROWS, VOCAB)) * 5).astype(np.float32)
    sampler = Sampler(VOCAB)
    rows = [sampler.row(Sampling(temperature=0.8, top_p=0.95, seed=seed)) for seed in range(ROWS)]
    ours, bare = interleave(
        ROUNDS, lambda: _seconds(lambda: sampler.sample(logits.copy(), rows)), lambda: _seconds(lambda: np.exp(logits))
    )
    detail = f"{ours * 1e3:.2f} ms, exp {bare * 1e3:.2f} ms"
    yield Figure("sampling 16 x 49,152 over their exp", ours / bare, "times", 4.0, False, detail)


def _vocabulary() -> list[bytes]:
    """As many tokens as SmolLM2 has, most of them made up."""
    source = random.Random(0)
    words = ("".join(source.choices("etaoinshrdlu", k=source.randint(2, 9))) for _ in range(VOCAB - 258))
    spaced = (f" {word}" if source.random() < 0.5 else word for word in words)
    return [*(bytes([byte]) for byte in range(256)), b"", b"<end>", *(word.encode() for word in spaced)]


def _answer(plugin: LogitsPlugin, constraints: Mapping[str, Any], logits: np.ndarray) -> float:
    """The median microseconds of a token, from the second on: the first builds what the others use."""
    times = []
    with plugin.stream(**constraints) as stream:
        stream.call((), logits)
        for byte in ANSWER:
            times.append(_seconds(partial(stream.call_with, logits_inputs((byte,), logits))))
    return float(np.median(times)) * 1e6


def logits_plugins() -> Iterator[Figure]:
    """A token of a constrained answer, against one of the same plugin that is asked for nothing."""
    logits = np.zeros(VOCAB, np.float32)
    limits = {
        "json-schema-logits": {"json_schema": SCHEMA},
        "banned-strings-logits": {"banned_strings": [f"word{number}x" for number in range(800)]},
    }
    with SandboxEngine() as engine:
        for name, constraints in limits.items():
            plugin = LogitsPlugin(engine, name, _vocabulary())
            sides = [partial(_answer, plugin, wanted, logits) for wanted in (constraints, {})]
            ours, bare = interleave(3, *sides)
            detail = f"{ours:.0f} us a token, {bare:.0f} us without constraints"
            yield Figure(f"{name}, more per token", ours - bare, "us", 200.0, False, detail)
            plugin.close()
