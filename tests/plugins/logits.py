"""A model that knows no better: streams of a logits plugin, with logits and choices out of a test."""

import json
from pathlib import Path

import numpy as np

from sandseal_host.sandbox import SandboxEngine
from sandseal_host.sandbox.logits import logits_assets
from sandseal_host.serving.generation.constraint import logits_inputs
from sandseal_sdk.build import build_plugin

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
WORDS = (*['{"', '":', '"}', '"]', "},", "name", "true", "null", "12", "ä", "bad", "\\u00"], '": "', '", "', " \n")
TOKENS = [*(bytes([byte]) for byte in range(256)), b"", b"<end>", *(word.encode() for word in WORDS)]
SPECIAL, STOP = 256, 257
PADDED = len(TOKENS) + 3  # as models have it


class LogitsPlugin:
    def __init__(self, engine: SandboxEngine, name: str, tokens=TOKENS) -> None:
        built = build_plugin(PLUGINS / name)
        self.tokens = tokens
        assets = logits_assets(tokens, {SPECIAL, STOP}, [STOP])
        self._plugin = engine.compile(built.wasm.read_bytes(), built.spec.stage, assets=assets)

    def stream(self, **constraints) -> "LogitsStream":
        return LogitsStream(self._plugin.instance(), json.dumps(constraints, ensure_ascii=False).encode())

    def close(self) -> None:
        self._plugin.close()


class LogitsStream:
    """One answer."""

    def __init__(self, instance, parameters: bytes) -> None:
        self._instance, self._parameters = instance, parameters
        self._flags = 1

    def call(self, ids=(), logits=None):
        """The logits after these further tokens."""
        return self.call_with(logits_inputs(ids, np.zeros(PADDED, np.float32) if logits is None else logits))

    def call_with(self, inputs):
        flags, self._flags = self._flags, 0
        (found,) = self._instance.call(inputs, self._parameters, flags=flags)
        return found.data

    def allowed(self, ids=()) -> set[int]:
        return set(np.flatnonzero(np.isfinite(self.call(ids))).tolist())

    def __enter__(self) -> "LogitsStream":
        return self

    def __exit__(self, *_: object) -> None:
        self._instance.close()
