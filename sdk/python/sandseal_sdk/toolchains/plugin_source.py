"""What is wrong with a plugin.py before anything translates it, in the author's terms and with a way out."""

import ast
from collections.abc import Iterator
from typing import Any, TypeGuard

from sandseal_sdk.errors import BuildError

_NO_CATCH = "a plugin cannot catch exceptions: WebAssembly ends the call where one is raised"
_TEST_BEFORE = "test before: `if key in table`, `text.isdigit()`, `x.size > 0`"
_AT_BUILD = "the top level of the module runs at build time and may do that"

UNSUPPORTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: (_NO_CATCH, _TEST_BEFORE),
    ast.TryStar: (_NO_CATCH, _TEST_BEFORE),
    ast.With: ("`with` needs objects that manage something, and a plugin has none", _AT_BUILD),
    ast.ClassDef: ("a plugin's functions have no classes of their own", "use tuples, dicts or arrays"),
    ast.Match: ("`match` does not translate", "write if and elif"),
    ast.Global: ("a function keeps nothing between calls", "pass it as an argument and return it"),
    ast.NamedExpr: ("`:=` does not translate", "assign on a line of its own"),
    ast.AsyncFunctionDef: ("a plugin is one call and waits for nothing", "write a plain `def`"),
    ast.Import: ("an import stands at the top of the file", "move it there"),
    ast.ImportFrom: ("an import stands at the top of the file", "move it there"),
    ast.YieldFrom: ("`yield from` does not translate", "write a loop with yield"),
    ast.Starred: ("`*` does not translate", "write the arguments, or x + [y]"),
    ast.Delete: ("`del` does not translate", "use pop(), or build what remains"),
}
"""Kinds of syntax that Pythran or WebAssembly cannot have, with why and what to do."""


class Unsupported(Exception):
    """Something in a plugin's source that does not translate.

    Args:
        file, line: where the author wrote it.
        why: what is wrong.
        hint: what to do.
    """

    def __init__(self, file: str, line: int | None, why: str, hint: str | None = None) -> None:
        super().__init__(why)
        self.file = file
        self.line = line
        self.why = why
        self.hint = hint

    def as_error(self, **data: Any) -> BuildError:
        """The same for the author, with whatever else is known."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return BuildError(f"{where}: {self.why}", hint=self.hint, file=self.file, line=self.line, **data)


def parse_source(file: str, text: str, function: str) -> ast.FunctionDef:
    """The stage's function in a plugin's source.

    Raises:
        Unsupported: no Python, or no such function.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise Unsupported(file, error.lineno or 1, error.msg) from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if function not in functions:
        raise Unsupported(file, 1, f"there is no function {function!r}, which plugin.toml names")
    return functions[function]


def check_function(definition: ast.FunctionDef, file: str) -> None:
    """Check one function that is to be translated.

    Raises:
        Unsupported: syntax that does not translate.
    """
    documentation = {id(node) for node in _docstrings(definition)}
    for node in ast.walk(definition):
        why, hint = UNSUPPORTED.get(type(node)) or _unsupported(node) or (None, None)
        if why is None and id(node) not in documentation and _is_text_beyond_ascii(node):
            why, hint = "text is bytes here, so a literal is ASCII", "make it a constant at the top level of the module"
        if why is not None:
            raise Unsupported(file, getattr(node, "lineno", definition.lineno), why, hint)


def first_use(name: str, text: str) -> int | None:
    """The line where a source first uses a function or attribute of this name."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Attribute, ast.Name)))
    lines = [node.lineno for node in nodes if name == (node.attr if isinstance(node, ast.Attribute) else node.id)]
    return min(lines, default=None)


def _unsupported(node: ast.AST) -> tuple[str, str] | None:
    """Why a node of a kind that may translate does not."""
    match node:
        case ast.FunctionDef() if node.decorator_list:
            return "a decorator does not translate", "call what it does"
        case ast.FunctionDef() if node.args.vararg or node.args.kwarg:
            return "a function takes a fixed number of arguments", "take a list or dict in place of * and **"
        case ast.Call() if any(keyword.arg is None for keyword in node.keywords):
            return "`**` in a call does not translate", "write the arguments"
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant())):
            return "str.format does not translate", "write an f-string"
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())):
            return "% on a text does not translate", "write an f-string"
        case ast.Raise(exc=None):
            return "`raise` alone has nothing to raise", "raise ValueError(...) to refuse the input"
        case ast.Raise(cause=ast.expr()):
            return "`from` after raise does not translate", "leave it out"
        case ast.Constant(value=bytes()):
            return "bytes do not translate", "text is bytes here: use str, or a UINT8 tensor as an array"
        case ast.Constant(value=complex()):
            return "no tensor holds complex numbers", "compute real and imaginary part apart"
        case ast.Constant(value=int() as value) if value >= 1 << 63:
            return f"{value} does not fit into 64 bits", "a plugin's int has 64 bits, NumPy's int64"
        case ast.Constant() if node.value is ...:
            return "`...` does not translate", "write a colon for each axis: x[:, :, 0]"
        case ast.Attribute(ctx=ast.Store()):
            return "nothing has attributes to set", "use a dict or tuple"
    return None


def _is_text_beyond_ascii(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isascii()


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
