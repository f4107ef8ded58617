"""What is wrong with a plugin.py before anything translates it: things that Pythran takes silently, or says badly."""

import ast
from collections.abc import Iterator
from typing import NoReturn, TypeGuard

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin_spec import PluginSpec


def check_source(spec: PluginSpec, text: str) -> None:
    """Check a Python plugin's source.

    Raises:
        BuildError: no Python, no such function, another number of parameters, `try`, or text beyond ASCII.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        _fail(spec, error.lineno or 1, error.msg)
    _check_function(spec, tree)
    documentation = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            _fail(spec, node.lineno, "a plugin cannot catch exceptions: WebAssembly ends the call where one is raised")
        if _is_text_beyond_ascii(node) and id(node) not in documentation:
            _fail(spec, node.lineno, "text in a plugin is bytes, so a literal is ASCII; use chr(n) for other bytes")


def first_use(name: str, text: str) -> int | None:
    """The line where a source first uses a function or attribute of this name."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Attribute, ast.Name)))
    lines = [node.lineno for node in nodes if name == (node.attr if isinstance(node, ast.Attribute) else node.id)]
    return min(lines, default=None)


def _check_function(spec: PluginSpec, tree: ast.Module) -> None:
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if spec.function not in functions:
        _fail(spec, 1, f"there is no function {spec.function!r}, which plugin.toml names")
    function = functions[spec.function]
    wanted = [tensor.name for tensor in spec.inputs] + list(spec.assets)
    given = function.args
    plain = not (given.vararg or given.kwarg or given.kwonlyargs or given.defaults)
    if not plain or len(given.args) + len(given.posonlyargs) != len(wanted):
        what = ", ".join(wanted)
        _fail(spec, function.lineno, f"{spec.function} must take one plain parameter for each of: {what}")


def _is_text_beyond_ascii(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isascii()


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _fail(spec: PluginSpec, line: int, why: str) -> NoReturn:
    raise BuildError(f"{spec.source}:{line}: {why}", file=spec.source, line=line)
