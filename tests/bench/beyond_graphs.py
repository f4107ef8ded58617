"""Loads of real models with the graph that this host had optimised and saved, against loads that optimise it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from bench import real_models
from bench.figure import Figure, interleave
from sandseal_host.optimisation import Optimisation
from sandseal_host.private_cache import PrivateCache
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.saved_graphs import SavedGraph, SavedGraphs
from sandseal_host.runtime.session import Session
from sandseal_sdk.errors import PackageUnavailable
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.names import MANIFEST

ROUNDS = 7
GOAL = 0.9  # a saved graph that spares less than a tenth of a load is not worth its place
_CPU = Device.parse("cpu")


def saved_graphs() -> Iterator[Figure]:
    """The models whose graphs are small enough to be saved; a load ends with the first run."""
    for name in ("image classifier", "text recogniser"):
        title = f"{name}, a load with its saved graph / without"
        try:
            model = real_models.ALL[name]()
        except PackageUnavailable as error:
            yield Figure.not_measured(title, error.message)
            continue
        with real_models.bundle(model) as folder, tempfile.TemporaryDirectory() as root:
            spec = parse_manifest((folder / MANIFEST).read_bytes()).model
            files = ModelFiles(spec, (folder / spec.file).read_bytes())
            kept = PrivateCache(Path(root) / "graphs", Path(root) / "keys" / "graphs.key", 1 << 26, "optimised graphs")
            place = SavedGraphs(kept).of("bench", files, _CPU, Optimisation.ALL)

            def seconds(saved: SavedGraph | None, files=files) -> float:
                began = monotonic()
                with Session.open(files, _CPU, saved=saved):
                    return monotonic() - began

            seconds(place)  # saves it
            warm, cold = interleave(ROUNDS, lambda p=place: seconds(p), lambda: seconds(None))
            yield Figure(title, warm / cold, "ratio", GOAL, False, f"{warm * 1e3:.0f} against {cold * 1e3:.0f} ms")
