"""The public test harness: a plugin's cases, and calls of one's own, in the very sandbox that will run it.

with load_plugin(folder) as plugin:
    result = plugin.call({"values": [1, 2, 3]})
    assert result.outputs["x"].shape == (1, 3)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sandseal_sdk.build import BuildResult, build_plugin, is_source
from sandseal_sdk.errors import CaseInvalid
from sandseal_sdk.plugin.plugin_spec import PluginSpec, read_assets
from sandseal_sdk.plugin.sandbox import Attempt, PluginSandbox, trace
from sandseal_sdk.plugin.values import Value, read_value
from sandseal_sdk.testing.cases import Case, read_cases, write_outputs
from sandseal_sdk.testing.comparison import differences
from sandseal_sdk.testing.oracle import Oracle
from sandseal_sdk.toolchains.compiler import Progress


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call answers and what it took.

    Args:
        outputs: by name: arrays, and nested lists of bytes for BYTES.
        milliseconds: wall time in a fresh instance, its making included.
        fuel: WebAssembly instructions, the same on every machine.
        memory_bytes: linear memory at the end, which never shrinks.
    """

    outputs: Mapping[str, Any]
    milliseconds: float
    fuel: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case went.

    Args:
        name: the case's.
        passed: whether everything was as wanted.
        milliseconds: wall time of the call, in a fresh instance.
        fuel: WebAssembly instructions that it ran, the same on every machine.
        memory_bytes: linear memory at its end, which never shrinks.
        detail: what was not as wanted, with the guest's frames where it trapped; empty when passed.
    """

    name: str
    passed: bool
    milliseconds: float
    fuel: int
    memory_bytes: int
    detail: str


@dataclass(frozen=True, slots=True)
class PluginReport:
    """How a plugin's cases went, by name."""

    cases: Sequence[CaseResult]

    @property
    def passed(self) -> bool:
        """Whether all of them passed."""
        return all(case.passed for case in self.cases)


class LoadedPlugin:
    """A built plugin that can be called, with its own limits; made by `load_plugin`.

    Args:
        built: the module and what it is to be.
        progress: gets what the plugin logs.

    Raises:
        PluginFolderInvalid: an asset is not there.
        PluginError: the host does not accept the module.
    """

    def __init__(self, built: BuildResult, progress: Progress) -> None:
        self.spec: PluginSpec = built.spec
        self._built, self._progress = built, progress
        self._assets = read_assets(built.spec)
        self._oracle = Oracle(built.spec, self._assets) if built.spec.language == "python" else None
        self._sandbox = PluginSandbox(built.wasm.read_bytes(), built.spec, self._assets, progress)

    def call(self, inputs: Mapping[str, Any], parameters: Mapping[str, Any] | None = None) -> CallResult:
        """Call a fresh instance.

        Args:
            inputs: by name: arrays, numbers, text, bytes, lists, or what a case may hold in their place.
            parameters: the request's.

        Raises:
            CaseInvalid: other inputs than plugin.toml names, or an object that stands for none.
            InputRefused: the plugin refuses the input (`sandseal_host.errors`, as all that follows).
            RequestInvalid: the inputs are not what plugin.toml says.
            PluginError: it traps, takes too long, has no room, or answers nonsense.
        """
        names = [tensor.name for tensor in self.spec.inputs]
        if set(inputs) != set(names):
            raise CaseInvalid(f"the inputs are {sorted(inputs)}; plugin.toml names {sorted(names)}")
        given = [read_value(inputs[tensor.name], tensor, self.spec.folder) for tensor in self.spec.inputs]
        attempt = self._sandbox.attempt(given, dumps(parameters or {}).encode())
        if attempt.error is not None:
            raise attempt.error
        answers = zip(self.spec.outputs, attempt.outputs, strict=True)
        outputs = {tensor.name: value.plain() for tensor, value in answers}
        return CallResult(outputs, attempt.milliseconds, attempt.fuel, attempt.memory_bytes)

    def run_case(self, case: Case, *, update: bool = False) -> CaseResult:
        """Run a case.

        Args:
            update: write what the plugin answers as the outputs of a golden case that wants others.
        """
        attempt = self._sandbox.attempt(case.inputs, case.parameters)
        complaint = _judge(attempt, case, self.spec)
        if update and case.golden and not attempt.error and (complaint or not case.outputs):
            case = write_outputs(case, self.spec, attempt.outputs)
            self._progress(f"{case.path}: outputs written")
            complaint = _judge(attempt, case, self.spec)
        complaints = [complaint, *_over_limits(attempt, case)]
        if self._oracle and not case.fails:
            complaints.append(_compare(attempt, case, self.spec, self._oracle))
        detail = "; ".join(complaint for complaint in complaints if complaint)
        if detail and attempt.error:
            detail = "\n".join((detail, *self._frames(attempt, case)))
        return CaseResult(case.name, not detail, attempt.milliseconds, attempt.fuel, attempt.memory_bytes, detail)

    def _frames(self, attempt: Attempt, case: Case) -> Sequence[str]:
        """Where the plugin trapped, from a second run of the module that still has its DWARF."""
        if not attempt.error or not attempt.error.data.get("frames") or not self._built.unstripped.is_file():
            return ()
        wasm = self._built.unstripped.read_bytes()
        folder = self.spec.folder
        sources = {path.name for path in folder.rglob("*") if is_source(path.relative_to(folder))}
        return trace(wasm, self.spec, self._assets, case.inputs, case.parameters, sources)

    def close(self) -> None:
        """Free the sandbox."""
        self._sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_plugin(folder: Path, progress: Progress = lambda line: None) -> LoadedPlugin:
    """Build a plugin if needed and make it ready to be called.

    Args:
        folder: holds plugin.toml and the source.
        progress: gets lines for the author, what the plugin logs included.

    Raises:
        BuildError, PluginFolderInvalid: what must change before anything can run.
        PluginError: the host does not accept the module.
    """
    return LoadedPlugin(build_plugin(folder, progress=progress), progress)


def test_plugin(
    folder: Path,
    progress: Progress = lambda line: None,  # noqa: PT028  # no pytest test
    *,
    update: bool = False,  # noqa: PT028
) -> PluginReport:
    """Build a plugin if needed and run its cases with its own limits.

    Args:
        folder: holds plugin.toml, the source and cases/.
        progress: gets lines for the author, what the plugin logs included.
        update: write the outputs of golden cases that want others.

    Raises:
        BuildError, CaseInvalid, PluginFolderInvalid: what must change before anything can run.
        PluginError: the host does not accept the module.
    """
    built = build_plugin(folder, progress=progress)
    cases = read_cases(built.spec)
    with LoadedPlugin(built, progress) as plugin:
        return PluginReport([plugin.run_case(case, update=update) for case in cases])


def _judge(attempt: Attempt, case: Case, spec: PluginSpec) -> str:
    """What is not as the case wants it, or nothing."""
    if attempt.error:
        wanted_code = "input_refused" if case.refused is not None else case.fails
        if attempt.error.code != wanted_code or (case.refused or "") not in attempt.error.message:
            return f"{attempt.error.code}: {attempt.error.message}"
        return ""
    if case.refused is not None or case.fails is not None:
        return f"succeeds, but must end in {case.fails or 'a refusal'}"
    wanted = [case.outputs.get(tensor.name) for tensor in spec.outputs]
    return differences(attempt.outputs, wanted, spec, case.tolerance, "the case")


def _over_limits(attempt: Attempt, case: Case) -> Sequence[str]:
    """Which limits of the case the call passed."""
    limits = case.limits
    used = (
        (attempt.fuel, limits.fuel, "instructions"),
        (attempt.memory_bytes / 2**20, limits.memory_mib, "MiB of memory"),
        (attempt.milliseconds, limits.time_ms, "ms"),
    )
    return [f"{had:,.6g} {unit}, over the case's {most:,}" for had, most, unit in used if most and had > most]


def _compare(attempt: Attempt, case: Case, spec: PluginSpec, oracle: Oracle) -> str:
    """Where the wasm differs from the same source under NumPy."""
    try:
        wanted: Sequence[Value] = oracle.call(case.inputs, case.parameters)
    except ValueError as error:
        text = str(error).encode("latin-1", "replace").decode("utf-8", "replace")
        refused = attempt.error is not None and attempt.error.message == text
        return "" if refused else f"plain Python refuses this with {text!r}"
    except Exception as error:  # the plugin's own, whatever it is
        return f"plain Python raises {type(error).__name__}: {error}"
    if attempt.error:
        return "plain Python succeeds"
    return differences(attempt.outputs, wanted, spec, case.tolerance, "plain Python")
