"""A function with every name of its module replaced by what that stands for in the program."""

import ast
import builtins
import difflib
import math
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NoReturn, Protocol

import numpy as np

from sandseal_sdk.toolchains.formatting import lower_fstring
from sandseal_sdk.toolchains.plugin_module import is_of
from sandseal_sdk.toolchains.plugin_source import Unsupported
from sandseal_sdk.toolchains.tables import NoTable

MODULES = ("numpy", "math", "itertools", "functools", "operator", "bisect")
"""The modules that functions may use; what of them, Pythran decides."""

INTRINSICS = "sandseal"
"""The module in which translated functions find tables and text formatting."""

_INLINE = 16  # elements of a tuple that is written out instead of read from the table


class Needs(Protocol):
    """The program that a function becomes part of: what it needs is entered there."""

    folder: Path
    known: Mapping[str, Any]
    modules: set[str]

    def add(self, function: FunctionType, name: str) -> str:
        """Take in a function and all that it needs; its name in the program."""
        ...

    def table(self, value: Any, name: str) -> str:
        """Take in a table; its name in the program."""
        ...


def rewrite(program: Needs, function: FunctionType, definition: ast.FunctionDef, file: str) -> ast.FunctionDef:
    """A function as it stands in the program.

    Args:
        program: which it becomes part of.
        function: as its module has it, for the names that it finds there.
        definition: its source, which is changed.
        file: the source's name, for errors.

    Raises:
        Unsupported: a name stands for something that a plugin cannot have.
    """
    return _Rewriter(program, function, definition, file).rewritten()


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function; its methods are called by the kind of node."""

    def __init__(self, program: Needs, function: FunctionType, definition: ast.FunctionDef, file: str) -> None:
        self._program = program
        self._globals = function.__globals__
        self._definition = definition
        self._file = file
        self._locals = _bound(definition)

    def rewritten(self) -> ast.FunctionDef:
        arguments = self._definition.args
        if not arguments.defaults and not any(arguments.kw_defaults):
            arguments.args += arguments.kwonlyargs  # Pythran passes them by position
            arguments.kwonlyargs, arguments.kw_defaults = [], []
        self._definition.returns = None
        self.generic_visit(self._definition)
        return self._definition

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assign = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return self.generic_visit(ast.copy_location(assign, node))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return self.generic_visit(lower_fstring(node, self._file, INTRINSICS))

    def visit_List(self, node: ast.List | ast.Tuple | ast.Set) -> ast.AST:
        """Give all texts of a display one type: Pythran has another for those of one character."""
        node.elts = [_text(element) for element in node.elts]
        return self.generic_visit(node)

    visit_Tuple = visit_Set = visit_List  # noqa: N815  # names that ast.NodeTransformer gives

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        node.keys = [_text(key) if key else None for key in node.keys]
        node.values = [_text(value) for value in node.values]
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        path = self._path(node)
        if path is None:
            return self.generic_visit(node)
        owner, name = path
        if not hasattr(owner, name):
            self._fail(node, f"{owner.__name__} has no {name!r}")
        return self._stands_for(node, getattr(owner, name), name)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.ctx, ast.Store):
            self._check_own(node.value)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            self._check_own(node.func.value)
        return self.generic_visit(node)

    def _check_own(self, changed: ast.expr) -> None:
        """See that what a function changes is not its module's."""
        table = isinstance(changed, ast.Name) and changed.id not in self._locals and self._globals.get(changed.id)
        if isinstance(changed, ast.Name) and isinstance(table, (list, dict, set, np.ndarray)):
            hint = "copy it first, or make it in the function"
            self._fail(changed, f"{changed.id!r} is the module's, and tables are constants", hint)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._locals or node.id == INTRINSICS:
            return node
        if node.id in self._globals:
            return self._stands_for(node, self._globals[node.id], node.id)
        if not hasattr(builtins, node.id):
            self._fail(node, f"nothing is called {node.id!r} here", _similar(node.id, self._globals))
        return self._builtin(node, node.id)

    def _path(self, node: ast.Attribute) -> tuple[ModuleType, str] | None:
        """The module and the name in it, of `module.name` or `package.module.name`."""
        names = []
        at: ast.expr = node
        while isinstance(at, ast.Attribute):
            names.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name) or at.id in self._locals:
            return None
        owner = self._globals.get(at.id)
        for name in reversed(names[1:]):
            owner = getattr(owner, name, None) if isinstance(owner, ModuleType) else None
        return (owner, names[0]) if isinstance(owner, ModuleType) else None

    def _stands_for(self, node: ast.expr, value: Any, name: str) -> ast.AST:
        if isinstance(value, FunctionType) and is_of(self._program.folder, value.__code__.co_filename):
            return ast.copy_location(ast.Name(self._program.add(value, value.__name__)), node)
        if isinstance(value, ModuleType):
            self._fail(node, f"the module {value.__name__!r} is a value here", "call a function of it")
        if isinstance(value, type) and value.__module__.partition(".")[0] not in (*MODULES, "builtins"):
            self._fail(node, f"{name!r} is a class, and a plugin's functions have none", "use tuples, dicts or arrays")
        if type(value) in (bool, int, float, str) or value is None or isinstance(value, (tuple, np.generic)):
            if (constant := _constant(value)) is not None:
                return ast.copy_location(constant, node)
        elif (place := self._library(value, name)) is not None:
            return self._of_library(node, *place)
        try:
            table = self._program.table(value, name)
        except NoTable as error:
            self._fail(node, f"{name!r} is {error}", "make it at the top level of the module")
        attribute = ast.Attribute(ast.Name(INTRINSICS, ast.Load()), table, ast.Load())
        return ast.copy_location(ast.Call(attribute, [], []), node)

    def _library(self, value: Any, name: str) -> tuple[str, str] | None:
        """Where a function or type comes from: a module, `builtins` included, and its name there."""
        if not callable(value):
            return None
        own = getattr(value, "__name__", name)
        owner = str(getattr(value, "__module__", None) or "")
        for module, there in ((np, "numpy"), (np.linalg, "numpy.linalg"), (np.fft, "numpy.fft"), (math, "math")):
            if getattr(module, own, None) is value:
                return there, own
        if getattr(builtins, own, None) is value:
            return "builtins", own
        return (owner.lstrip("_"), own) if owner else None

    def _of_library(self, node: ast.expr, module: str, name: str) -> ast.AST:
        if module == "builtins":
            return self._builtin(node, name)
        package, *inner = module.split(".")
        if package not in MODULES:
            why = f"the module {package!r} is out of reach for a plugin's functions"
            self._fail(node, why, "use it at the top level, which runs at build time, and keep what it makes there")
        known = self._program.known[package]
        for part in inner:
            known = known.get(part, {})
        if name not in known or f"{module}.{name}" in _REFUSED:
            short = "np" + module.removeprefix("numpy") if package == "numpy" else module
            hint = _REFUSED.get(f"{module}.{name}") or _similar(name, known)
            self._fail(node, f"{short}.{name} is not among the functions that plugins have", hint)
        self._program.modules.add(package)
        at: ast.expr = ast.Name(package, ast.Load())
        for part in (*inner, name):
            at = ast.Attribute(at, part, ast.Load())
        return ast.copy_location(at, node)

    def _builtin(self, node: ast.expr, name: str) -> ast.AST:
        if name not in self._program.known["builtins"] or f"builtins.{name}" in _REFUSED:
            self._fail(node, f"{name} is not among the functions that plugins have", _REFUSED.get(f"builtins.{name}"))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _fail(self, node: ast.expr, why: str, hint: str | None = None) -> NoReturn:
        raise Unsupported(self._file, node.lineno, why, hint)


_CHANGING = ("add", "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", "update", "setdefault")
_REFUSED = {
    "numpy.take": "index the array: a[indices]",
    "builtins.open": "read files at the top level of the module, which runs at build time, or list them as assets",
    "builtins.input": "values come in as the stage's inputs",
}


def _bound(definition: ast.FunctionDef) -> set[str]:
    """Every name that a function binds, in inner functions and comprehensions too."""
    nodes = list(ast.walk(definition))
    names = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return names | {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node is not definition}


def _constant(value: Any) -> ast.expr | None:
    """A value written out, if it is small; text beyond ASCII, large or odd things are tables."""
    if isinstance(value, np.generic):
        inner = _constant(value.item())
        return inner and ast.Call(_of_numpy("bool_" if isinstance(value, np.bool_) else value.dtype.name), [inner], [])
    if isinstance(value, tuple):
        elements = [_constant(element) for element in value]
        written = [_text(element) for element in elements if element is not None]
        small = 0 < len(elements) <= _INLINE and len(written) == len(elements)
        return ast.Tuple(written, ast.Load()) if small else None
    if isinstance(value, float) and not math.isfinite(value):
        size = _of_numpy("nan" if math.isnan(value) else "inf")
        return ast.UnaryOp(ast.USub(), size) if value < 0 else size
    if isinstance(value, str) and not value.isascii():
        return None
    return ast.Constant(value) if value is None or type(value) in (bool, int, float, str) else None


def _text(node: ast.expr) -> ast.expr:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) == 1):
        return node
    call = ast.Call(ast.Attribute(ast.Name(INTRINSICS, ast.Load()), "text", ast.Load()), [node], [])
    return ast.copy_location(call, node)


def _of_numpy(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("numpy", ast.Load()), name, ast.Load())


def _similar(name: str, known: Mapping[str, Any]) -> str | None:
    near = difflib.get_close_matches(name, list(known), 3, 0.75)
    return f"there is {', '.join(near)}" if near else None
