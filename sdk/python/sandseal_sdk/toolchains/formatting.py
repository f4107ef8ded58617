"""f-strings in the words of what Pythran knows: texts put together, numbers written as C's printf writes them."""

import ast
import re
from functools import reduce

from sandseal_sdk.toolchains.plugin_source import Unsupported

# What Python's format language and printf's have in common, to the letter.
_FORMAT = re.compile(r"(?P<flags>[+ ]?0?)(?P<width>\d{0,2})(?P<precision>\.\d{1,2})?(?P<kind>[dxXfFeEgG])")
_FORMS = "a format is like 'd', '03d', 'x', '.2f', '8.3e' or 'g'"


def lower_fstring(node: ast.JoinedStr, file: str, module: str) -> ast.expr:
    """The sum of texts that an f-string stands for; formats call functions of `module`.

    Raises:
        Unsupported: a conversion or format that has no equivalent.
    """
    parts = [_part(part, file, module) for part in node.values] or [ast.Constant("")]
    return ast.copy_location(reduce(lambda one, other: ast.BinOp(one, ast.Add(), other), parts), node)


def _part(part: ast.expr, file: str, module: str) -> ast.expr:
    if not isinstance(part, ast.FormattedValue):
        return part
    if part.conversion not in (-1, ord("s")):
        raise Unsupported(file, part.lineno, "an f-string has no !r or !a here", "write {value}")
    if part.format_spec is None:
        return ast.Call(ast.Name("str", ast.Load()), [part.value], [])
    format_ = _FORMAT.fullmatch(_written(part.format_spec))
    if format_ is None or part.conversion != -1 or (format_["kind"] in "dxX" and format_["precision"]):
        raise Unsupported(file, part.lineno, f"the format {_written(part.format_spec)!r} is not known here", _FORMS)
    whole = format_["kind"] in "dxX"
    start = f"%{format_['flags']}{format_['width']}{format_['precision'] or ''}{'ll' if whole else ''}"
    function = ast.Attribute(ast.Name(module, ast.Load()), f"format_{'int' if whole else 'float'}", ast.Load())
    return ast.Call(function, [ast.Constant(start + format_["kind"]), part.value], [])


def _written(spec: ast.expr) -> str:
    constants = spec.values if isinstance(spec, ast.JoinedStr) else []
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{...}" for part in constants)
