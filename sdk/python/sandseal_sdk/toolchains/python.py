"""NumPy-Python to wasm: Pythran translates the function to C++, glue fits it to the ABI, clang compiles both."""

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import Progress, cpp_folder, header_folder, memory_flags, package_folder, run_tool
from sandseal_sdk.toolchains.diagnostics import read_diagnostics
from sandseal_sdk.toolchains.glue import parameter_types, render_glue
from sandseal_sdk.toolchains.plugin_source import check_source, first_use

_STACK, _INITIAL = 128 << 10, 5 << 18
# -fexceptions lets Pythran's `throw` compile; nothing is ever caught (see sandseal_python.hpp).
_FLAGS = (
    "-target", "wasm32-wasi", "-mexec-model=reactor", "-O3", "-msimd128", "-std=c++17", "-fexceptions", "-DNDEBUG",
)  # fmt: skip
_FIRST_LIBCXX = "the first build from Python on this machine compiles libc++ (about two minutes, then cached)"
_SUBSET = "plugins are written in the part of Python and NumPy that Pythran translates; see sdk/README.md"
_ASSERTION = re.compile(
    r"static assertion failed(?: due to requirement '.*?')?: (.* in plugin\.toml.*|.* must return .*)"
)
_NUMPY_NAME = re.compile(r"pythonic::(?:numpy|builtins|operator_)::(?:\w+::)*functor::(\w+)")


def compile_python(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    """Compile a Python plugin.

    Args:
        spec: the plugin.
        work: a folder for intermediate files.
        progress: gets lines for the author.

    Raises:
        BuildError: the source is outside of what Pythran translates, or does not fit plugin.toml.
    """
    check_source(spec, (spec.folder / spec.source).read_text(encoding="utf-8"))
    _translate(spec, work, progress)
    (work / "glue.cpp").write_text(render_glue(spec), encoding="utf-8", newline="\n")
    includes = [cpp_folder(), header_folder(), package_folder("pythran")]
    arguments = ["c++", *_FLAGS, *(f"-I{folder}" for folder in includes), "-o", "module.wasm", "glue.cpp"]
    arguments += memory_flags(spec.limits.memory_mib, _STACK, _INITIAL)
    arguments += [f"-DSANDSEAL_IMPORTS_{name.upper()}" for name in spec.imports]
    outcome = run_tool("ziglang", arguments, work, progress, _FIRST_LIBCXX)
    if not outcome.succeeded:
        _explain(spec, work, progress, outcome.text)
    return (work / "module.wasm").read_bytes()


def _translate(spec: PluginSpec, work: Path, progress: Progress, *, only_types: bool = False) -> None:
    """Write plugin.cpp; or only look for type errors.

    Raises:
        BuildError: Pythran refuses the source.
    """
    out = None if only_types else "plugin.cpp"
    source = str((spec.folder / spec.source).resolve())
    job = {"source": source, "function": spec.function, "types": parameter_types(spec), "out": out}
    (work / "job.json").write_text(json.dumps(job), encoding="utf-8")
    arguments = ["job.json"]
    outcome = run_tool("sandseal_sdk.toolchains.pythran_job", arguments, work, progress, "Pythran is still at work")
    if not outcome.succeeded:
        said = _last_json(outcome.text)
        _fail(spec, said.get("line"), said.get("message", outcome.text.strip()[-2000:]), compiler=outcome.text[-8192:])


def _last_json(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text.splitlines()[-1]))
    except (IndexError, ValueError):
        return {}


def _explain(spec: PluginSpec, work: Path, progress: Progress, stderr: str) -> NoReturn:
    """Turn clang's words about generated code into one about the author's."""
    if mismatch := _ASSERTION.search(stderr):
        _fail(spec, None, mismatch[1], hint="correct the function or plugin.toml", compiler=stderr[:8192])
    _translate(spec, work, progress, only_types=True)
    diagnostics = read_diagnostics(stderr)
    error = next((found for found in diagnostics if found.is_error), None)
    if error is None:
        _fail(spec, None, "the C++ that Pythran made of it does not link", compiler=stderr[:8192])
    name = _NUMPY_NAME.search(error.text)
    line = next((found.line for found in diagnostics if found.file == Path(spec.source).name), None)
    if line is None and name:
        line = first_use(name[1], (spec.folder / spec.source).read_text(encoding="utf-8"))
    text = error.text.replace("(anonymous namespace)::", "").replace("pythonic::", "")
    where = f" at {name[1]!r}" if name else ""
    why = f"the C++ that Pythran made of it does not compile{where}: {text[:300]}"
    _fail(spec, line, why, hint=_SUBSET, compiler=stderr[:8192])


def _fail(spec: PluginSpec, line: int | None, why: str, *, hint: str | None = None, **data: Any) -> NoReturn:
    where = f"{spec.source}:{line}" if line else spec.source
    raise BuildError(f"{where}: {why}", hint=hint, file=spec.source, line=line, **data)
