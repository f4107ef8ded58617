"""What reading a body costs as JSON, as msgpack and as binary tensors: whether msgpack would be worth its place."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson

from api.double import manifest, spec
from bench.figure import Figure, Measure, interleave
from sandseal_host.api.json_tensor import tensor_from_json
from sandseal_host.api.request_decoder import RequestDecoder
from sandseal_host.api.terms import Terms
from sandseal_host.serving.request import STANDARD

_MSGPACK = "msgpack==1.2.4"
_SHAPES = {"128 numbers": (1, 128), "an image": (1, 3, 224, 224)}
_SECONDS = 0.5


def bodies() -> Iterator[Figure]:
    """Times of JSON and of binary over msgpack's, from a body's bytes to its tensor, as this host would read each."""
    with TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, _MSGPACK]
        if subprocess.run(pip, check=False, capture_output=True).returncode:
            yield Figure.not_measured("msgpack bodies", f"pip cannot get {_MSGPACK}")
            return
        sys.path.insert(0, folder)
        import msgpack  # type: ignore[import-not-found,unused-ignore]

        sys.path.remove(folder)
        for name, shape in _SHAPES.items():
            yield from _compared(name, shape, msgpack)


def _compared(name: str, shape: tuple[int, ...], msgpack: Any) -> Iterator[Figure]:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    axes = ("batch", *shape[1:])
    decoder = RequestDecoder(manifest("m", [spec("x", "FP32", *axes)], [spec("y", "FP32", *axes)]), Terms(STANDARD))
    entry = {"name": "x", "shape": list(shape), "datatype": "FP32"}
    text = orjson.dumps({"inputs": [{**entry, "data": x.ravel().tolist()}]})
    packed = msgpack.packb({"inputs": [{**entry, "data": x.ravel().tolist()}]}, use_single_float=True)
    head = orjson.dumps({"inputs": [{**entry, "parameters": {"binary_data_size": x.nbytes}}]})
    tensors = decoder.signature.inputs["x"]

    def of_msgpack() -> None:
        document = msgpack.unpackb(packed)
        tensor_from_json(tensors, shape, document["inputs"][0]["data"])

    json, theirs, binary = interleave(
        5,
        _timed(lambda: decoder.decode(memoryview(text), len(text))),
        _timed(of_msgpack),
        _timed(lambda: decoder.decode(memoryview(head + x.tobytes()), len(head))),
    )
    sizes = f"{len(text):,} bytes against {len(packed):,}"
    yield Figure(
        f"msgpack's gain over JSON, {name}", json / theirs, "times", 2.0, False,
        f"{json:,.1f} us against {theirs:,.1f}, {sizes}; above that it would be worth its place",
    )  # fmt: skip
    yield Figure(
        f"binary's gain over msgpack, {name}", theirs / binary, "times", 1.0, True,
        f"{theirs:,.1f} us against {binary:,.1f}",
    )  # fmt: skip


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    """Microseconds of processor that it takes."""

    def run() -> float:
        count, began = 0, time.process_time()
        while (spent := time.process_time() - began) < _SECONDS:
            work()
            count += 1
        return spent / count * 1e6

    return run


MEASURES = (Measure("msgpack", bodies),)
