"""NumPy-Python to wasm: Pythran translates the function to C++, glue fits it to the ABI, clang compiles both."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import (
    Progress,
    cpp_folder,
    import_defines,
    library_folder,
    memory_flags,
    package_folder,
    run_tool,
)
from sandseal_sdk.toolchains.diagnostics import SAID, Diagnostic, read_diagnostics
from sandseal_sdk.toolchains.glue import parameter_types, render_glue
from sandseal_sdk.toolchains.plugin_source import Unsupported, first_use
from sandseal_sdk.toolchains.signature import Setting, read_settings
from sandseal_sdk.toolchains.wide_int import widen_ints

_STACK, _INITIAL = 128 << 10, 5 << 18
# -fexceptions lets Pythran's `throw` compile; nothing is ever caught (see sandseal_python.hpp). -funsigned-char: text
# is bytes, and `ord` of one never answers below 0.
_COMPILE = (
    "c++", "-target", "wasm32-wasi", "-mexec-model=reactor", "-O3", "-msimd128", "-std=c++17", "-fexceptions",
    "-funsigned-char", "-DNDEBUG",
)  # fmt: skip
_FIRST_LIBCXX = "the first build from Python on this machine compiles libc++ (about two minutes, then cached)"
_SUBSET = "plugins are written in the part of Python and NumPy that Pythran translates; see sdk/numpy-python.md"
_ASSERTION = re.compile(
    r"static assertion failed(?: due to requirement '.*?')?: (.* in plugin\.toml.*|.* must return .*)"
)
_NEAR = 3  # lines; Pythran moves an expression to where its value is used
_MISSING = re.compile(r"undefined symbol: .*?pythonic::(?:numpy|builtins)::(?:\w+::)*(\w+)<")
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
    try:
        settings = read_settings(spec)
    except Unsupported as refusal:
        raise refusal.as_error() from None
    _translate(spec, settings, work, progress)
    (work / "glue.cpp").write_text(render_glue(spec, settings), encoding="utf-8", newline="\n")
    includes = [f"-I{folder}" for folder in (cpp_folder(), library_folder("c"), package_folder("pythran"))]
    memory = memory_flags(spec.limits.memory_mib, _STACK, _INITIAL)
    preprocess = [*_COMPILE, *includes, *import_defines(spec), "-E", "-o", "glue.ii", "glue.cpp"]
    outcome = run_tool("ziglang", preprocess, work, progress, "the preprocessor is still at work")
    if outcome.succeeded:
        widened = widen_ints((work / "glue.ii").read_text(encoding="utf-8"))
        (work / "widened.cpp").write_text(widened, encoding="utf-8", newline="\n")
        arguments = [*_COMPILE, *memory, "-o", "module.wasm", "widened.cpp", "tables.cpp"]
        outcome = run_tool("ziglang", arguments, work, progress, _FIRST_LIBCXX)
    if not outcome.succeeded:
        _explain(spec, settings, work, progress, outcome.text)
    return (work / "module.wasm").read_bytes()


def _translate(
    spec: PluginSpec, settings: Sequence[Setting], work: Path, progress: Progress, *, only_types: bool = False
) -> None:
    """Write plugin.cpp and the tables; or only look for type errors.

    Raises:
        BuildError: the source does not translate.
    """
    job: dict[str, Any] = {"folder": str(spec.folder.resolve()), "source": spec.source, "function": spec.function}
    job |= {"types": parameter_types(spec, settings), "only_types": only_types}
    (work / "job.json").write_text(json.dumps(job), encoding="utf-8")
    arguments = ["job.json"]
    outcome = run_tool("sandseal_sdk.toolchains.pythran_job", arguments, work, progress, "Pythran is still at work")
    if not outcome.succeeded:
        said = _last_json(outcome.text)
        text = said.get("message", outcome.text.strip()[-2000:])
        refusal = Unsupported(said.get("file") or spec.source, said.get("line"), text, said.get("hint"))
        raise refusal.as_error() from None


def _last_json(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text.splitlines()[-1]))
    except (IndexError, ValueError):
        return {}


def _explain(spec: PluginSpec, settings: Sequence[Setting], work: Path, progress: Progress, stderr: str) -> NoReturn:
    """Turn clang's words about generated code into one about the author's."""
    if mismatch := _ASSERTION.search(stderr):
        _fail(spec.source, None, mismatch[1], hint="correct the function or plugin.toml", compiler=stderr[:SAID])
    if missing := _MISSING.search(stderr):
        why = f"{missing[1]!r} does not work with what it is given"
        _fail(spec.source, first_use(missing[1], spec.source_text), why, hint=_SUBSET, compiler=stderr[:SAID])
    diagnostics = read_diagnostics(stderr)
    error = next((found for found in diagnostics if found.is_error), None)
    if error is None:
        _fail(spec.source, None, "the C++ that Pythran made of it does not link", compiler=stderr[:SAID])
    name = _NUMPY_NAME.search(error.text)
    place = _place(spec, diagnostics, name and name[1])
    _explain_types(spec, settings, work, progress, place)
    text = error.text.replace("(anonymous namespace)::", "").replace("pythonic::", "")
    where = f" at {name[1]!r}" if name else ""
    why = f"the C++ that Pythran made of it does not compile{where}: {text[:300]}"
    _fail(*place, why, hint=_SUBSET, compiler=stderr[:SAID])


def _place(spec: PluginSpec, diagnostics: Sequence[Diagnostic], name: str | None) -> tuple[str, int | None]:
    """The author's file and line that clang speaks of, or where the function of this name is first used."""
    for found in diagnostics:
        if found.file.endswith(".py"):
            return found.file, found.line
    return spec.source, first_use(name, spec.source_text) if name else None


def _explain_types(
    spec: PluginSpec, settings: Sequence[Setting], work: Path, progress: Progress, place: tuple[str, int | None]
) -> None:
    """Let Pythran look for an error of types, which it says better than clang, though it finds some that are none.

    Raises:
        BuildError: there is one, and clang complains of this place too, or of one shortly after it.
    """
    try:
        _translate(spec, settings, work, progress, only_types=True)
    except BuildError as error:
        file, line = error.data["file"], error.data["line"]
        if file == place[0] and 0 <= (place[1] or 0) - (line or 0) <= _NEAR:
            raise


def _fail(file: str, line: int | None, why: str, *, hint: str | None = None, **data: Any) -> NoReturn:
    raise Unsupported(file, line, why, hint).as_error(**data)
