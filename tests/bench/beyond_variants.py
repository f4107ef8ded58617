"""Precision variants of real models against their FP32 graphs: seconds of a run, and how alike the answers are."""

from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from time import monotonic

from bench import real_models
from bench.figure import Figure, interleave
from bench.real_models import RealModel
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.session import Session
from sandseal_sdk.errors import ExportFailed, PackageUnavailable
from sandseal_sdk.exporting.variants import add_variant
from sandseal_signing.manifest import ModelSpec, parse_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.variants import Precision

ROUNDS = 5
_DEVICES = {Precision.FP16: Device.parse("cuda"), Precision.INT8: Device.parse("cpu")}
_CPU = Device.parse("cpu")
_TIME_GOAL, _ALIKE_GOAL = 1.0, 0.95


def variants() -> Iterator[Figure]:
    """Each real model in FP16 and INT8."""
    for name, make in real_models.ALL.items():
        try:
            model = make()
        except PackageUnavailable as error:
            yield Figure.not_measured(f"{name}, variants", error.message)
            continue
        for precision in _DEVICES:
            with real_models.bundle(model) as folder:
                yield from _compared(name, model, folder, precision)


def _compared(name: str, model: RealModel, folder: Path, precision: Precision) -> Iterator[Figure]:
    try:
        size = add_variant(folder, precision, model.samples, inf).size
    except ExportFailed as error:
        yield Figure.not_measured(f"{name} in {precision}", error.message)
        return
    spec = parse_manifest((folder / MANIFEST).read_bytes()).model
    other, plain = (spec.as_variant(variant) for variant in spec.variants)
    with ExitStack() as stack:
        there, here = (stack.enter_context(_opened(folder, each, _CPU)) for each in (other, plain))
        alike = min(
            model.alike(*(session.run([real_models.tensors(spec, sample)])[0][0].data for session in (here, there)))
            for sample in model.samples
        )
    detail = f"{alike:.5f}, {model.measure}; {size / 1e6:.1f} against {model.graph.stat().st_size / 1e6:.1f} MB"
    yield Figure(f"{name}, {precision} like FP32", alike, "", _ALIKE_GOAL, True, detail)
    yield _timed(name, model, folder, spec, precision)


def _timed(name: str, model: RealModel, folder: Path, spec: ModelSpec, precision: Precision) -> Figure:
    device, title = _DEVICES[precision], f"{name}, {precision} / FP32, a run"
    if not device.available():
        return Figure.not_measured(title, f"needs {device}, which such a variant is for")
    asked = [[real_models.tensors(spec, sample)] for sample in model.samples]

    def seconds(session: Session) -> float:
        began = monotonic()
        for requests in asked:
            session.run(requests)
        return (monotonic() - began) / len(asked)

    with ExitStack() as stack:
        both = [stack.enter_context(_opened(folder, spec.as_variant(each), device)) for each in spec.variants]
        there, here = interleave(ROUNDS, *(lambda s=session: seconds(s) for session in both))
    return Figure(title, there / here, "ratio", _TIME_GOAL, False, f"{there * 1e3:.1f} against {here * 1e3:.1f} ms")


def _opened(folder: Path, spec: ModelSpec, device: Device) -> Session:
    """A variant, with one thread."""
    return Session.open(ModelFiles(spec, (folder / spec.file).read_bytes(), folder=folder), device)
