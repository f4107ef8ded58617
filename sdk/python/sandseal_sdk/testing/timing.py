"""How long a plugin's cases take: as a host calls it, with the instance kept, and the same function as plain Python."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from sandseal_sdk.build import build_plugin
from sandseal_sdk.errors import CaseInvalid
from sandseal_sdk.plugin.plugin_spec import read_assets
from sandseal_sdk.plugin.sandbox import PluginSandbox
from sandseal_sdk.testing.cases import Case, read_cases
from sandseal_sdk.testing.oracle import Oracle
from sandseal_sdk.toolchains.compiler import Progress


@dataclass(frozen=True, slots=True)
class Times:
    """Wall times of one way of calling, in microseconds."""

    median_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class CaseTimes:
    """One case, called again and again.

    Args:
        name: the case's.
        fresh: in an instance of its own each time, as a host does for `pre` and `post`.
        reused: in one instance, as for the chunks of a stream.
        python: the same function under plain Python and NumPy; none in other languages.
        fuel: WebAssembly instructions of one call, the same on every machine.
        memory_bytes: linear memory at its end.
    """

    name: str
    fresh: Times
    reused: Times
    python: Times | None
    fuel: int
    memory_bytes: int


def time_plugin(folder: Path, rounds: int = 200, progress: Progress = lambda line: None) -> Iterator[CaseTimes]:
    """Build a plugin if needed and time those of its cases that end well, by name.

    Args:
        folder: holds plugin.toml, the source and cases/.
        rounds: calls of each kind, one of each in turn.
        progress: gets lines for the author.

    Raises:
        BuildError, CaseInvalid, PluginFolderInvalid: what must change before anything can run.
        PluginError: the host does not accept the module.
    """
    built = build_plugin(folder, progress=progress)
    spec, wasm, assets = built.spec, built.wasm.read_bytes(), read_assets(built.spec)
    cases = [case for case in read_cases(spec) if case.refused is None and case.fails is None]
    if not cases:
        raise CaseInvalid(f"{folder}: every case ends in an error, so there is nothing to time")
    oracle = Oracle(spec, assets) if spec.language == "python" else None
    with PluginSandbox(wasm, spec, assets, progress) as counted:
        attempts = [counted.attempt(case.inputs, case.parameters) for case in cases]
    with PluginSandbox(wasm, spec, assets, lambda line: None, fuel=False) as sandbox:
        for case, attempt in zip(cases, attempts, strict=True):
            if attempt.error:
                raise attempt.error
            fresh, reused, python = _time(sandbox, case, rounds, oracle)
            yield CaseTimes(case.name, fresh, reused, python, attempt.fuel, attempt.memory_bytes)


def _time(sandbox: PluginSandbox, case: Case, rounds: int, oracle: Oracle | None) -> tuple[Times, Times, Times | None]:
    """Fresh, reused and plain Python, taking turns."""
    inputs = sandbox.tensors(case.inputs)
    with sandbox.instance() as instance:

        def fresh() -> None:
            with sandbox.instance() as other:
                other.call(inputs, case.parameters)

        ways: list[Callable[[], object]] = [fresh, partial(instance.call, inputs, case.parameters)]
        if oracle:
            ways.append(partial(oracle.call, case.inputs, case.parameters))
        times: list[list[float]] = [[] for _ in ways]
        for _ in range(rounds):
            for way, found in zip(ways, times, strict=True):
                found.append(_microseconds(way))
    summed = [_summary(found) for found in times]
    return summed[0], summed[1], summed[2] if oracle else None


def _microseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - began)


def _summary(times: list[float]) -> Times:
    return Times(median(times), sorted(times)[int(0.99 * len(times))])
