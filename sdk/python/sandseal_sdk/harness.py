"""Run a plugin's cases in the very sandbox that will run it, and a Python plugin's against NumPy too.

The only module of the SDK that knows the host, and only when it runs.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sandseal_sdk.build import build_plugin
from sandseal_sdk.cases import Case, Value, read_cases
from sandseal_sdk.comparison import differences
from sandseal_sdk.errors import PluginFolderInvalid
from sandseal_sdk.oracle import Oracle
from sandseal_sdk.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import Progress
from sandseal_signing.errors import SandsealError
from sandseal_signing.manifest import DataType, TensorSpec

if TYPE_CHECKING:
    from sandseal_host.sandbox import Plugin
    from sandseal_host.tensors import Tensor


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case went.

    Args:
        name: the case's.
        passed: whether everything was as wanted.
        milliseconds: wall time of the call, in a fresh instance.
        detail: what was not as wanted; empty when passed.
    """

    name: str
    passed: bool
    milliseconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class PluginReport:
    """How a plugin's cases went, by name."""

    cases: Sequence[CaseResult]

    @property
    def passed(self) -> bool:
        """Whether all of them passed."""
        return all(case.passed for case in self.cases)


def test_plugin(folder: Path, progress: Progress = lambda line: None) -> PluginReport:  # noqa: PT028  # no pytest test
    """Build a plugin if needed and run its cases with its own limits.

    Args:
        folder: holds plugin.toml, the source and cases/.
        progress: gets lines for the author, what the plugin logs included.

    Raises:
        BuildError, CaseInvalid, PluginFolderInvalid: what must change before anything can run.
        PluginError: the host does not accept the module.
    """
    from sandseal_host.sandbox import SandboxEngine

    built = build_plugin(folder, progress=progress)
    spec, cases = built.spec, read_cases(built.spec)
    assets = {name: _asset(spec, name) for name in spec.assets}
    oracle = Oracle(spec, assets) if spec.language == "python" else None
    with (
        SandboxEngine(log=lambda label, level, line: progress(f"{label}: {line}"), pooling=False) as engine,
        engine.compile(built.wasm.read_bytes(), spec.stage, assets=assets, label=spec.name) as plugin,
    ):
        return PluginReport([_run(plugin, case, spec, oracle) for case in cases])


def _asset(spec: PluginSpec, name: str) -> bytes:
    try:
        return (spec.folder / name).read_bytes()
    except OSError as error:
        raise PluginFolderInvalid(
            f"the asset {name} cannot be read: {error.strerror}", hint="the plugin's README says how to make it"
        ) from None


def _run(plugin: "Plugin", case: Case, spec: PluginSpec, oracle: Oracle | None) -> CaseResult:
    inputs = [_tensor(value, tensor) for value, tensor in zip(case.inputs, spec.inputs, strict=True)]
    began = time.perf_counter()
    try:
        outcome: Sequence[Value] | SandsealError = [_back(output) for output in plugin.call(inputs, case.parameters)]
    except SandsealError as error:
        outcome = error
    milliseconds = 1000 * (time.perf_counter() - began)
    complaints = [_judge(outcome, case, spec)]
    if oracle and not case.fails:
        complaints.append(_compare(outcome, case, spec, oracle))
    detail = "; ".join(complaint for complaint in complaints if complaint)
    return CaseResult(case.name, not detail, milliseconds, detail)


def _judge(outcome: Sequence[Value] | SandsealError, case: Case, spec: PluginSpec) -> str:
    """What is not as the case wants it, or nothing."""
    if isinstance(outcome, SandsealError):
        wanted_code = "input_refused" if case.refused is not None else case.fails
        if outcome.code != wanted_code or (case.refused or "") not in outcome.message:
            return f"{outcome.code}: {outcome.message}"
        return ""
    if case.refused is not None or case.fails is not None:
        return f"succeeds, but must end in {case.fails or 'a refusal'}"
    wanted = [case.outputs.get(tensor.name) for tensor in spec.outputs]
    return differences(outcome, wanted, spec, case.tolerance, "the case")


def _compare(outcome: Sequence[Value] | SandsealError, case: Case, spec: PluginSpec, oracle: Oracle) -> str:
    """Where the wasm differs from the same source under NumPy."""
    try:
        wanted = oracle.call(case.inputs)
    except ValueError as error:
        text = str(error).encode("latin-1", "replace").decode("utf-8", "replace")
        refused = isinstance(outcome, SandsealError) and outcome.message == text
        return "" if refused else f"plain Python refuses this with {text!r}"
    except Exception as error:  # the plugin's own, whatever it is
        return f"plain Python raises {type(error).__name__}: {error}"
    if isinstance(outcome, SandsealError):
        return "plain Python succeeds"
    return differences(outcome, wanted, spec, case.tolerance, "plain Python")


def _tensor(value: Value, tensor: TensorSpec) -> "Tensor":
    from sandseal_host.tensors import Tensor, pack_bytes

    data = pack_bytes([bytes(e) for e in value.data]) if tensor.dtype is DataType.BYTES else np.asarray(value.data)
    return Tensor(tensor.name, tensor.dtype, value.shape, data)


def _back(tensor: "Tensor") -> Value:
    from sandseal_host.tensors import unpack_bytes

    return Value(tensor.shape, unpack_bytes(tensor) if tensor.dtype is DataType.BYTES else tensor.data)
