"""What the first-party plugins cost: in the sandbox, as the same C for this machine, and under NumPy and Pillow."""

import ctypes
import io
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.figure import Figure, Measure, interleave
from sandseal_host.sandbox import Plugin, SandboxEngine
from sandseal_host.tensors import Tensor, pack_bytes
from sandseal_sdk.build import build_plugin
from sandseal_sdk.testing.cases import Value
from sandseal_sdk.testing.oracle import Oracle
from sandseal_signing.tensor import DataType
from support.first_party import PLUGINS, complete
from support.oracles import installed

NATIVE = Path(__file__).parent / "native"
SENTENCE = (
    "The quick brown fox jumps over the lazy dog while an internationalization expert writes a sentence about "
    "tokenization in Zürich."
)
ROUNDS = 60


@contextmanager
def _compiled(name: str) -> Iterator[tuple[Plugin, Oracle | None]]:
    """A built plugin in the sandbox, and its function under plain Python where it is written in that."""
    folder = complete(name)
    built = build_plugin(folder)
    assets = {asset: (folder / asset).read_bytes() for asset in built.spec.assets}
    oracle = Oracle(built.spec, assets) if built.spec.language == "python" else None
    with SandboxEngine() as engine, engine.compile(built.wasm.read_bytes(), built.spec, assets=assets) as plugin:
        yield plugin, oracle


def _micros(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e6


def _photograph(pillow: Any) -> bytes:
    """A JPEG of 640 x 427 pixels with the detail of a photograph."""
    y, x = np.mgrid[0:427, 0:640].astype(np.float32)
    smooth = np.stack([127 + 90 * np.sin(x / 31 + k) * np.cos(y / (17 + 5 * k)) for k in range(3)], 2)
    noise = np.random.default_rng(5).normal(0, 12, smooth.shape)
    file = io.BytesIO()
    pillow.fromarray(np.clip(smooth + noise, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def _by_pillow(pillow: Any, file: bytes) -> np.ndarray:
    image = pillow.open(io.BytesIO(file)).convert("RGB")
    image = image.resize((383, 256), pillow.Resampling.BICUBIC).crop((80, 16, 304, 240))
    pixels = np.asarray(image, np.float32) * np.float32(1 / 255) - np.array([0.485, 0.456, 0.406], np.float32)
    return np.ascontiguousarray((pixels / np.array([0.229, 0.224, 0.225], np.float32)).transpose(2, 0, 1)[None])


def _by_gcc(folder: Path) -> Callable[[bytes], np.ndarray]:
    """The plugin's own C, compiled for this machine."""
    library, plugin = folder / "native.so", complete("image-classification-pre")
    includes = [f"-I{path}" for path in (NATIVE, plugin, PLUGINS.parent / "sdk" / "c")]
    gcc = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-w", *includes, str(NATIVE / "native.c"), "-o"]
    subprocess.run([*gcc, str(library)], check=True)
    prepare = ctypes.CDLL(str(library)).prepare

    def run(file: bytes) -> np.ndarray:
        pixels = np.empty((1, 3, 224, 224), np.float32)
        assert prepare(file, ctypes.c_uint64(len(file)), pixels.ctypes.data_as(ctypes.c_void_p)) == 0
        return pixels

    return run


def image() -> Iterator[Figure]:
    """A JPEG of 640 x 427 to FP32 [1, 3, 224, 224]: decoded, resized, cut, standardised; all three agree."""
    sys.path.append(str(installed()))
    from PIL import Image

    file = _photograph(Image)
    data = np.frombuffer(file, np.uint8)
    tensor = Tensor("image", DataType.UINT8, data.shape, data)
    with _compiled("image-classification-pre") as (plugin, _), tempfile.TemporaryDirectory() as temporary:
        sides = [lambda: plugin.call((tensor,))[0].data, lambda: _by_pillow(Image, file)]
        if shutil.which("gcc"):
            native = _by_gcc(Path(temporary))
            sides.append(lambda: native(file))
        answers = [side() for side in sides]
        assert all(np.allclose(answers[0], other, atol=2e-6) for other in answers)
        ours, pillow, *gcc = interleave(ROUNDS, *(lambda side=side: _micros(side) for side in sides))
    yield Figure("image: sandbox / Pillow", ours / pillow, "ratio", 3, False, f"{ours:.0f} against {pillow:.0f} us")
    for native_us in gcc:
        detail = f"{ours:.0f} against {native_us:.0f} us"
        yield Figure("image: sandbox / the same C by gcc -O3", ours / native_us, "ratio", 3, False, detail)


def _against_python(name: str, value: Value, goal: float, what: str) -> Iterator[Figure]:
    """A Python plugin in the sandbox against the same file under plain Python and NumPy."""
    with _compiled(name) as (plugin, oracle):
        assert oracle is not None
        (spec,) = plugin.spec.inputs
        data = pack_bytes(list(value.data)) if spec.dtype is DataType.BYTES else value.data
        tensor = Tensor(spec.name, spec.dtype, value.shape, data)
        ours, python = interleave(
            ROUNDS, lambda: _micros(lambda: plugin.call((tensor,))), lambda: _micros(lambda: oracle.call([value]))
        )
    detail = f"{ours:.0f} against {python:.0f} us, {what}"
    yield Figure(f"{name}: Python / sandbox", python / ours, "times", goal, True, detail)


def tokenizer() -> Iterator[Figure]:
    """A sentence of 20 words to the token ids of BERT."""
    yield from _against_python("text-embedding-pre", Value((1,), [SENTENCE.encode()]), 1, "20 words")


def recognition() -> Iterator[Figure]:
    """Scores of 50 steps and 18,710 classes to text."""
    scores = np.random.default_rng(3).random((1, 50, 18710), np.float32)
    yield from _against_python("text-recognition-post", Value(scores.shape, scores), 0.3, "50 x 18,710 scores")


MEASURES = (
    Measure("first-party plugins: image", image),
    Measure("first-party plugins: tokenizer", tokenizer),
    Measure("first-party plugins: recognition", recognition),
)
