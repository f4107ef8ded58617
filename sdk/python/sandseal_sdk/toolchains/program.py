"""What a stage's function reaches in the plugin's modules, as one module that Pythran can translate.

The modules are imported as they stand (plugin_module.py), so that their top level is ordinary Python and runs once, at
build time. Then, from the stage's function on, every name that a function finds in its module is looked up there:

* another function of the plugin's folder joins the program, from whichever module;
* numbers, text and containers become constants, or tables that the built module reads (tables.py);
* NumPy, math and builtins stay what they are, as far as Pythran has them.
"""

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sandseal_sdk.toolchains.plugin_source import Unsupported, check_function
from sandseal_sdk.toolchains.rewriter import INTRINSICS, rewrite
from sandseal_sdk.toolchains.tables import Type, type_of


@dataclass(frozen=True, slots=True)
class Program:
    """One module with everything that a stage needs.

    Args:
        text: its source.
        lines: where a statement of it was written, by its line: file and line.
        tables: what it reads with `sandseal.NAME()`, with the types.
    """

    text: str
    lines: Mapping[int, tuple[str, int]]
    tables: Mapping[str, tuple[Any, Type]]


def gather_program(folder: Path, module: ModuleType, function: str, known: Mapping[str, Any]) -> Program:
    """The program of a stage.

    Args:
        folder: the plugin's.
        module: its source, imported.
        function: the stage's.
        known: what Pythran has: of each module, the names, and for a submodule its own such mapping.

    Raises:
        Unsupported: something that does not translate, with file and line.
    """
    gathered = _Gatherer(folder, known)
    stage = getattr(module, function)
    if not isinstance(stage, FunctionType):
        file = Path(str(module.__file__)).name
        raise Unsupported(file, None, f"{function} is no plain function", "write it as a `def`")
    gathered.add(stage, function)
    imports = [ast.Import([ast.alias(name)]) for name in (*sorted(gathered.modules), INTRINSICS)]
    bodies = [definition for definition, _ in gathered.functions]
    text = ast.unparse(ast.fix_missing_locations(ast.Module([*imports, *bodies], [])))
    written = ast.parse(text).body[len(imports) :]
    lines: dict[int, tuple[str, int]] = {}
    for new, (old, file) in zip(written, gathered.functions, strict=True):
        for its, theirs in zip(_statements(new), _statements(old), strict=True):
            lines[its.lineno] = (file, theirs.lineno)
    return Program(text, lines, gathered.tables)


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    return (found for found in ast.walk(node) if isinstance(found, ast.stmt))


@dataclass(slots=True)
class _Gatherer:
    """Functions, in order of need, and what they share."""

    folder: Path
    known: Mapping[str, Any]
    functions: list[tuple[ast.FunctionDef, str]] = field(default_factory=list)
    tables: dict[str, tuple[Any, Type]] = field(default_factory=dict)
    modules: set[str] = field(default_factory=lambda: {"numpy"})
    _names: dict[int, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _trees: dict[str, dict[str, ast.FunctionDef]] = field(default_factory=dict)

    def add(self, function: FunctionType, name: str) -> str:
        """Take in a function and all that it needs; its name in the program."""
        if id(function) not in self._names:
            self._names[id(function)] = unique = self.unique(name)
            path = Path(function.__code__.co_filename)
            definition = copy.deepcopy(self._definition(path, function))
            definition.name = unique
            check_function(definition, path.name)
            self.functions.append((rewrite(self, function, definition, path.name), path.name))
        return self._names[id(function)]

    def table(self, value: Any, name: str) -> str:
        """Take in a table; its name in the program.

        Raises:
            NoTable: it has no type that C++ knows.
        """
        if id(value) not in self._names:
            kind = type_of(value)
            self._names[id(value)] = unique = self.unique(f"table_{name}")
            self.tables[unique] = value, kind
        return self._names[id(value)]

    def unique(self, name: str) -> str:
        """`name`, or with a number behind it if it is taken."""
        count, unique = 1, name
        while unique in self._taken:
            count += 1
            unique = f"{name}_{count}"
        self._taken.add(unique)
        return unique

    def _definition(self, path: Path, function: FunctionType) -> ast.FunctionDef:
        """The `def` of a function at the top level of a module."""
        if str(path) not in self._trees:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            self._trees[str(path)] = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        found = self._trees[str(path)].get(function.__code__.co_name)
        if found is None:
            line = function.__code__.co_firstlineno
            raise Unsupported(path.name, line, "a function is a `def` at the top level of a module", "write it as one")
        return found
