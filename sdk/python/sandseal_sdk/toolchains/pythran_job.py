"""Pythran in a process of its own: `python -m sandseal_sdk.toolchains.pythran_job JOB.json`.

The job: folder, source, function, its parameters' types, and `only_types`, to look for type errors, which Pythran does
not do while it translates. It runs the top level of the plugin's modules, gathers what the function needs from them,
and writes plugin.cpp and the tables. What fails is the last line on stderr, as JSON. Apart because the author's code
runs here, Pythran keeps global state, warns and logs as it likes, and its output depends on the hash seed.
"""

import json
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import gast as ast  # comes with Pythran, whose tables have its nodes as keys
from pythran import config, spec, tables, toolchain
from pythran.analyses.aliases import save_intrinsic_alias
from pythran.analyses.argument_effects import save_function_effect
from pythran.analyses.global_effects import save_global_effects
from pythran.intrinsic import ConstFunctionIntr, ConstMethodIntr, Intrinsic

from sandseal_sdk.toolchains.plugin_module import is_of, load_plugin
from sandseal_sdk.toolchains.plugin_source import Unsupported
from sandseal_sdk.toolchains.program import Program, gather_program
from sandseal_sdk.toolchains.rewriter import INTRINSICS
from sandseal_sdk.toolchains.table_files import write_tables

MODULE = "plugin"  # the translated function is __pythran_plugin::FUNCTION
FUNCTIONS = ("text", "format_int", "format_float")  # of sandseal_format.hpp
METHODS = ("isalnum", "islower", "isspace", "isupper", "removeprefix", "removesuffix", "rfind", "splitlines")


def _main(job: dict[str, Any]) -> None:
    folder = Path(job["folder"])
    program = gather_program(folder, _loaded(folder, job["source"]), job["function"], tables.MODULES)
    write_tables(program.tables, Path())
    try:
        _translate(program, job)
    except SyntaxError as error:  # Pythran's own errors are kinds of it
        raise _placed(program, error.lineno, str(error.args[0])) from None


def _loaded(folder: Path, source: str) -> ModuleType:
    try:
        return load_plugin(folder, source)
    except Exception as error:  # the author's module may raise anything
        frames = traceback.extract_tb(error.__traceback__)
        file, line = next(((f.filename, f.lineno) for f in reversed(frames) if is_of(folder, f.filename)), (source, 1))
        said = f"{type(error).__name__}: {error}"
        raise Unsupported(Path(file).name, line, f"the top level, which runs at build time, raises {said}") from None


def _translate(program: Program, job: dict[str, Any]) -> None:
    for name in (*FUNCTIONS, *program.tables):
        intrinsic = ConstFunctionIntr(global_effects=True)  # else Pythran would evaluate it itself
        tables.MODULES.setdefault(INTRINSICS, {})[name] = _remembered(intrinsic, name, (INTRINSICS,))
        tables.functions.setdefault(name, []).append(((INTRINSICS,), intrinsic))
    for name in METHODS:
        tables.CLASSES["str"][name] = _remembered(ConstMethodIntr(), name, ("builtins", "str"))
    tables.update_operator_to_lambda[ast.Add] = "(pythonic::sandseal::iadd({0}, {1}))".format
    tables.update_operator_to_lambda[ast.Mod] = "(pythonic::sandseal::imod({0}, {1}))".format
    exported = spec.spec_parser(f"#pythran export {job['function']}({', '.join(job['types'])})")
    config.cfg.set("backend", "annotate", "1")
    config.cfg.set("backend", "annotation_kind", "lineno")
    module, check_types = toolchain.generate_cxx(MODULE, program.text, exported)
    if job["only_types"]:
        check_types()
    Path("plugin.cpp").write_text(_with_lines(str(module), program.lines), encoding="utf-8", newline="\n")


def _remembered(intrinsic: Intrinsic, name: str, module: tuple[str, ...]) -> Intrinsic:
    """Something that Pythran is to know, entered where Pythran enters its own while it is imported."""
    intrinsic.path = (*module, name)
    for remember in (save_intrinsic_alias, save_function_effect, save_global_effects):
        remember({name: intrinsic})
    if intrinsic.ismethod():
        tables.methods[name] = module, intrinsic
    return intrinsic


def _with_lines(cpp: str, lines: Mapping[int, tuple[str, int]]) -> str:
    """The C++ with a #line before each statement, so that the compiler speaks of the author's lines."""

    def marked(found: re.Match[str]) -> str:
        place = lines.get(int(found[1]))
        return f'#line {place[1]} "{place[0]}"' if place else ""

    ours = rf"{INTRINSICS}/.*|builtins/str/(?:{'|'.join(METHODS)}).hpp"
    cpp = re.sub(rf"^#include <pythonic/(?:include/)?(?:{ours})>$", "", cpp, flags=re.MULTILINE)
    return re.sub(r"^\s*pythran_trace_lineno\((\d+)\);", marked, cpp, flags=re.MULTILINE)


def _placed(program: Program, line: int | None, message: str) -> Unsupported:
    file, there = program.lines.get(line or 0, ("", None))
    unknown = re.fullmatch(r"Attribute '(\w+)' unknown", message)
    if unknown:
        return Unsupported(file, there, f"nothing here has {unknown[1]!r}", "sdk/numpy-python.md lists what there is")
    return Unsupported(file, there, message.partition(", tried:")[0])  # a list of all that Pythran knows follows


if __name__ == "__main__":
    try:
        _main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except Unsupported as refusal:
        said = {"file": refusal.file, "line": refusal.line, "message": refusal.why, "hint": refusal.hint}
        sys.stderr.write("\n" + json.dumps(said))
        sys.exit(1)
    except Exception as error:
        traceback.print_exc()
        words = f"Pythran cannot translate this: {type(error).__name__}: {error}"
        sys.stderr.write("\n" + json.dumps({"message": words}))
        sys.exit(1)
