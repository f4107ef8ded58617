"""The generated parts of sdk/numpy-python.md: what the tested constructs show, and what is refused, with the words."""

import ast
import re
import textwrap
from pathlib import Path

from sandseal_sdk.toolchains.plugin_source import Unsupported, check_function
from support.constructs import GROUPS, read_group

PAGE = Path(__file__).resolve().parents[2] / "sdk" / "numpy-python.md"

# One of each kind of thing that is refused, as an author would write it.
REFUSED = (
    "try:\n    n = int(text)\nexcept ValueError:\n    n = 0",
    "with open('a.txt') as file:\n    pass",
    "class Point:\n    pass",
    "match n:\n    case 1: pass",
    "global count",
    "if (n := len(text)) > 3: pass",
    "import math",
    "yield from words",
    "del d['a']",
    "f(*words)",
    "f(**options)",
    "said = '{} of {}'.format(a, b)",
    "said = '%d' % n",
    "raise ValueError('no') from error",
    "magic = b'GIF8'",
    "x = 2j",
    "x = 0xFFFFFFFFFFFFFFFF",
    "first = x[..., 0]",
    "key = 'Größe'",
)
_MARKS = re.compile(r"(<!-- (?P<what>supported|refused): [^>]*-->\n).*?(<!-- /(?P=what) -->)", re.DOTALL)


def with_constructs(text: str) -> str:
    """The page with its lists as the tests are now."""
    parts = {"supported": supported, "refused": refused}
    return _MARKS.sub(lambda match: f"{match[1]}{parts[match['what']]()}\n{match[3]}", text)


def supported() -> str:
    """Every construct of every group."""
    lines = []
    for name in GROUPS:
        group = read_group(name)
        lines += [f"### {group.title}", "", *(f"* {construct.shows}" for construct in group.constructs), ""]
    return "\n".join(lines).rstrip()


def refused() -> str:
    """What the check of a function says of each of REFUSED."""
    lines = ["| you write | it says | do |", "|---|---|---|"]
    for source in REFUSED:
        refusal = refusal_of(source)
        code = source.splitlines()[0].replace("|", "\\|")
        lines.append(f"| `{code}` | {refusal.why.replace('|', '&#124;')} | {refusal.hint} |")
    return "\n".join(lines)


def refusal_of(source: str) -> Unsupported:
    """Why a function with these lines does not translate.

    Raises:
        AssertionError: it may.
    """
    definition = ast.parse("def f():\n" + textwrap.indent(source, "    ")).body[0]
    assert isinstance(definition, ast.FunctionDef)
    try:
        check_function(definition, "plugin.py")
    except Unsupported as refusal:
        return refusal
    raise AssertionError(f"{source!r} is not refused")
