"""The figures of *First light*."""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import servers
from bench.figure import Figure, Measure, interleave
from bench.load import Target, measure
from sandseal_sdk import publish
from sandseal_sdk.build import build_plugin
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_signing.bundle import Discard, open_bundle
from sandseal_signing.digest import CHUNK
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from sandseal_signing.seal import SealReader
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Moment
from support.onnx_models import mlp, wide_mlp

FloatArray = NDArray[np.float32]
Image = NDArray[np.uint8]

ROOT = Path(__file__).resolve().parents[2]
CONNECTIONS = 32
ROUNDS = 5
SECONDS = 3.0


def _rate(target: Target) -> float:
    return measure(target, CONNECTIONS, SECONDS, servers.cores()[1])


def against_echo() -> Iterator[Figure]:
    """A small MLP's infer against an echo of the same sizes, binary and JSON."""
    row = np.random.default_rng(1).standard_normal((1, 128)).astype(np.float32)
    binary, headers = servers.binary(row, "x")
    plain = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 128], "data": row.ravel().tolist()}]}
    bodies = {"binary": (binary, headers, 0.5), "json": (json.dumps(plain).encode(), {}, 0.4)}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        (folder / "mlp.onnx").write_bytes(mlp().data)
        host = stack.enter_context(servers.host(folder / "host", folder / "mlp.onnx", "mlp"))
        for kind, (body, extra, goal) in bodies.items():
            target = servers.target(host, "/v2/models/mlp/infer", body, extra)
            port = stack.enter_context(servers.echo(_answer_bytes(target)))
            bare = Target(port, servers.request("/", body, {}))
            ours, echo = interleave(ROUNDS, lambda t=target: _rate(t), lambda t=bare: _rate(t))
            detail = f"{ours:,.0f} against {echo:,.0f} req/s at {CONNECTIONS} connections"
            yield Figure(f"{kind} infer / bare ASGI echo", ours / echo, "ratio", goal, True, detail)


def _answer_bytes(target: Target) -> int:
    """How long our answer's body is, from one request."""
    import http.client

    head, _, body = target.request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=30)
    connection.request("POST", lines[0].split()[1], body, dict(line.split(": ", 1) for line in lines[1:]))
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the host answers {answer.status}: {content[:300]!r}")
    return len(content)


def batching() -> Iterator[Figure]:
    """A weight-bound model with batches of 32 rows against one row at a time."""
    row = np.random.default_rng(2).standard_normal((1, 768)).astype(np.float32)
    body, headers = servers.binary(row, "x")
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        (folder / "wide.onnx").write_bytes(wide_mlp().data)
        targets = []
        for max_rows in ("32", "1"):
            settings = {"SANDSEAL_MAX_ROWS": max_rows}
            host = stack.enter_context(servers.host(folder / max_rows, folder / "wide.onnx", "wide", settings))
            targets.append(servers.target(host, "/v2/models/wide/infer", body, headers))
        on, off = interleave(ROUNDS, *(lambda t=target: _rate(t) for target in targets))
        yield Figure("batching on / off, 768-3072x3 MLP", on / off, "ratio", 3.0, True, f"{on:,.0f}/{off:,.0f} rows/s")


def fresh_instance() -> Iterator[Figure]:
    """What a fresh sandbox instance costs over a reused one, for the same call of a first-party plugin."""
    from sandseal_host.sandbox.engine import SandboxEngine
    from sandseal_host.tensors import Tensor

    spec, wasm = _image_plugin()
    image = _image()
    tensor = Tensor("image", spec.inputs[0].dtype, image.shape, image)
    with SandboxEngine() as engine, engine.compile(wasm, spec) as plugin, plugin.instance() as reused:
        fresh, again = interleave(
            400, lambda: _micros(lambda: plugin.call((tensor,))), lambda: _micros(lambda: reused.call((tensor,)))
        )
    detail = f"{fresh:.0f} against {again:.0f} us, 224x224x3 UINT8 to FP32"
    yield Figure("fresh instance - reused instance", fresh - again, "us", 60, False, detail)


def against_numpy() -> Iterator[Figure]:
    """The image preprocess as wasm against the same file under NumPy, and against hand-tuned NumPy."""
    import importlib.util

    from sandseal_host.sandbox.engine import SandboxEngine
    from sandseal_host.tensors import Tensor

    spec, wasm = _image_plugin()
    source = importlib.util.spec_from_file_location("image_normalise", ROOT / "plugins/image-normalise/plugin.py")
    assert source is not None
    assert source.loader is not None
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    natural = getattr(module, spec.function)
    image = _image()
    tensor = Tensor("image", spec.inputs[0].dtype, image.shape, image)
    with SandboxEngine() as engine, engine.compile(wasm, spec) as plugin:
        (ours,) = plugin.call((tensor,))
        assert np.allclose(ours.data, natural(image), atol=1e-5)
        assert np.allclose(ours.data, _tuned(image), atol=1e-5)
        wasm_us, numpy_us, tuned_us = interleave(
            200,
            lambda: _micros(lambda: plugin.call((tensor,))),
            lambda: _micros(lambda: natural(image)),
            lambda: _micros(lambda: _tuned(image)),
        )
    detail = f"{wasm_us:.0f} us in the sandbox, {numpy_us:.0f} us NumPy, {tuned_us:.0f} us hand-tuned NumPy"
    yield Figure("NumPy / wasm, same preprocess source", numpy_us / wasm_us, "ratio", 1.0, True, detail)


_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_STD = np.array([0.229, 0.224, 0.225], np.float32)
_TABLE = ((np.arange(256, dtype=np.float32)[None, :] / 255 - _MEAN[:, None]) / _STD[:, None]).astype(np.float32)


def _tuned(
    image: Image,
) -> FloatArray:
    """The best hand-written NumPy that we know for it: one scale and shift per channel, in place, no temporaries."""
    out = np.empty((1, 3, *image.shape[:2]), np.float32)
    for channel in range(3):
        np.multiply(image[:, :, channel], np.float32(1 / 255) / _STD[channel], out=out[0, channel])
        out[0, channel] -= _MEAN[channel] / _STD[channel]
    return out


def _image() -> Image:
    return np.random.default_rng(3).integers(0, 256, (224, 224, 3), np.uint8)


def _image_plugin():
    folder = ROOT / "plugins" / "image-normalise"
    return read_plugin_spec(folder).stage, build_plugin(folder, progress=print).wasm.read_bytes()


def _micros(call) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def verification() -> Iterator[Figure]:
    """Verifying a 1 GiB .seal on disk against hashing the same file."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "small.onnx").write_bytes(mlp().data)
        bundle = publish.write_bundle(folder / "small.onnx", folder / "bundle", name="big")
        with (bundle / "weights.bin").open("wb") as file:
            for _ in range(64):
                file.write(os.urandom(16 << 20))
        key = PrivateKey.generate()
        trust = publish.write_trust(folder / "trust.toml", bundle, {"me": key.public}, holder="me")
        policy = TrustPolicy.parse(trust.read_text(), lambda _: "")
        seal = folder / "big.seal"
        with seal.open("wb") as file:
            pack_folder(bundle, file, [key])

        def verify() -> float:
            began = time.perf_counter()
            with seal.open("rb", buffering=0) as file:
                open_bundle(SealReader(file), policy, lambda _: Moment.current(), Discard())
            return time.perf_counter() - began

        def sha256() -> float:
            began = time.perf_counter()
            sha, buffer = hashlib.sha256(), memoryview(bytearray(CHUNK))
            with seal.open("rb", buffering=0) as file:
                while got := file.readinto(buffer):
                    sha.update(buffer[:got])
            return time.perf_counter() - began

        verify(), sha256()  # the page cache is warm for both
        ours, bare = interleave(5, verify, sha256)
        gib = seal.stat().st_size / 2**30
        detail = f"{gib / ours:.2f} against {gib / bare:.2f} GiB/s"
        yield Figure("verify 1 GiB .seal / hashlib.sha256", bare / ours, "ratio", 0.8, True, detail)


MEASURES = (
    Measure("serving against a bare echo", against_echo),
    Measure("batching", batching),
    Measure("fresh instance", fresh_instance),
    Measure("wasm against NumPy", against_numpy),
    Measure("verification", verification),
)
