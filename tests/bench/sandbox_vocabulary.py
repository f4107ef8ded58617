"""What initialisation at build time saves: a NumPy-Python plugin with 30,000 words in a dict."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, Measure, interleave
from sandseal_host.sandbox import Plugin, SandboxEngine
from sandseal_host.tensors import Tensor, pack_bytes
from sandseal_sdk.build import build_plugin
from sandseal_signing.tensor import DataType

ROUNDS = 300
SPEC = """schema = "sandseal.plugin/1"
name = "vocabulary"
language = "python"
source = "plugin.py"
function = "look_up"
stage = "pre"
inputs = [{ name = "text", dtype = "BYTES", shape = ["n"] }]
outputs = [{ name = "ids", dtype = "INT64", shape = ["n"] }]
"""
SOURCE = """import numpy as np

VOCABULARY = {"w%05d" % (7919 * i % 100003): i for i in range(30000)}


def look_up(text):
    ids = np.empty(len(text), np.int64)
    for i in range(len(text)):
        ids[i] = VOCABULARY[text[i]] if text[i] in VOCABULARY else -1
    return ids
"""


def _start(plugin: Plugin) -> float:
    """An instance made and dropped: its memory is made fresh again when it is dropped."""
    began = time.perf_counter()
    with plugin.instance():
        pass
    return (time.perf_counter() - began) * 1e6


def _call(plugin: Plugin, inputs: list[Tensor]) -> float:
    began = time.perf_counter()
    plugin.call(inputs)
    return (time.perf_counter() - began) * 1e6


def vocabulary() -> Iterator[Figure]:
    """A fresh instance as built, and as it would be if it initialised itself; and a whole call that looks words up."""
    words = [Tensor("text", DataType.BYTES, (3,), pack_bytes([b"w00000", b"w07919", b"none"]))]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "plugin.toml").write_text(SPEC)
        (folder / "plugin.py").write_text(SOURCE)
        built = build_plugin(folder, progress=print)
        baked, plain, spec = built.wasm.read_bytes(), built.unstripped.read_bytes(), built.spec.stage
    with SandboxEngine() as engine, engine.compile(baked, spec) as plugin, engine.compile(plain, spec) as initialising:
        assert plugin.call(words)[0].data.tolist() == [0, 1, -1]
        start, call = interleave(ROUNDS, lambda: _start(plugin), lambda: _call(plugin, words))
        (slow,) = interleave(20, lambda: _start(initialising))
    why = f"{slow:.0f} us without the build's part; {len(baked) / 2**20:.1f} MiB of wasm"
    yield Figure("instance with 30,000 words, made and dropped", start, "us", 100, False, why)
    yield Figure("fresh call that looks up three of them", call, "us", 250, False, f"{start:.0f} us of it the instance")


MEASURES = (Measure("vocabulary", vocabulary),)
