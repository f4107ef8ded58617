"""A page read by a pipeline, against a client that asks for each of its steps."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import ocr

from bench.figure import Figure, Measure, interleave
from sandseal_sdk.client import Client
from sandseal_sdk.errors import PackageUnavailable
from sandseal_sdk.harness import LoadedPlugin, load_plugin
from sandseal_signing.keys import PrivateKey
from support.first_party import PLUGINS
from support.hosts import running_host

ROUNDS = 7
_NAME = "a page by a pipeline / by its steps, one by one"


def pages() -> Iterator[Figure]:
    """The pipeline of sdk/examples/ocr.py, and a client with its two plugins in a sandbox of its own, over HTTP."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            seals = ocr.write_seals(folder, PrivateKey.generate())
        except PackageUnavailable as error:
            yield Figure.not_measured(_NAME, error.message)
            return
        with (
            running_host(folder / "trust.toml", folder / "data") as host,
            host.client(timeout=300) as client,
            load_plugin(PLUGINS / "ocr-page-step") as page,
            load_plugin(PLUGINS / "ocr-lines-step") as lines,
        ):
            for path in seals:
                client.push(path)
            image = ocr.PAGE.read_bytes()

            def chained() -> float:
                began = time.monotonic()
                client.call("demo.ocr", image)
                return time.monotonic() - began

            chained()
            ours, theirs = interleave(ROUNDS, chained, lambda: _one_by_one(client, page, lines, image))
    yield Figure(
        _NAME, ours / theirs, "ratio", 1.1, False, f"{ours * 1e3:,.0f} against {theirs * 1e3:,.0f} ms, 9 lines"
    )


def _one_by_one(client: Client, page: LoadedPlugin, lines: LoadedPlugin, image: bytes) -> float:
    began = time.monotonic()
    made = page.call({"image": np.frombuffer(image, np.uint8)}).outputs
    probability = client.infer("demo.text-detection", {"x": made["x"]})["fetch_name_0"]
    cut = lines.call({"pixels": made["pixels"], "map": probability}).outputs["x"]
    for start in range(0, len(cut), ocr.LINES_AT_ONCE):
        client.infer("demo.text-lines", {"x": cut[start : start + ocr.LINES_AT_ONCE]})
    return time.monotonic() - began


PIPELINES = Measure("pipelines", pages)
