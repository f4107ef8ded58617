import ast

import pytest

from sandseal_sdk.toolchains.plugin_module import load_plugin
from sandseal_sdk.toolchains.plugin_source import Unsupported
from sandseal_sdk.toolchains.program import gather_program

KNOWN = {
    "numpy": {"exp": 1, "sum": 1, "float32": 1, "linalg": {"norm": 1}},
    "math": {"sqrt": 1},
    "builtins": {"len": 1, "str": 1},
}
WORDS = """import re

TABLE = {"a": 1}


def helper(x):
    return TABLE[x] + scale(2)


def scale(n):
    return n * 3
"""


@pytest.fixture
def gather(tmp_path):
    def gather(source, **files):
        for name, text in {"plugin": source, **files}.items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return gather_program(tmp_path, load_plugin(tmp_path, "plugin.py"), "stage", KNOWN)

    return gather


def body(program, name="stage"):
    tree = ast.parse(program.text)
    return ast.unparse(next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name))


def test_functions_of_other_modules_join_with_their_lines(gather):
    program = gather("import words\nfrom words import scale as s\n\n\ndef scale(x):\n    return s(x)\n\n\n"
                     "def stage(x):\n    return words.helper(x) + scale(1)\n", words=WORDS)  # fmt: skip
    assert body(program) == "def stage(x):\n    return helper(x) + scale_2(1)"
    assert list(program.tables) == ["table_TABLE"]
    assert {("words.py", 7), ("words.py", 11), ("plugin.py", 10)} <= set(program.lines.values())


def test_constants_are_written_out_and_containers_become_tables(gather):
    program = gather("import numpy as np\nA, B, C, D = 3, -1.5, 'x', (1, 2)\nE = np.float32(2)\nF = [1]\nG = '\u00fc'\n"
                     "H = float('inf')\n\n\ndef stage(x):\n    return A, B, C, D, E, F, G, H\n")  # fmt: skip
    assert body(program).endswith(
        "return (3, -1.5, 'x', (1, 2), numpy.float32(2.0), sandseal.table_F(), sandseal.table_G(), numpy.inf)"
    )


def test_what_libraries_give_is_found_under_any_name(gather):
    program = gather("import numpy as n\nfrom numpy import exp as e\nfrom math import sqrt\n"
                     "from numpy.linalg import norm\n\n\ndef stage(x: n.ndarray) -> float:\n    y: float = norm(x)\n"
                     "    return e(x) + sqrt(4) + n.sum(x) + len(x) + y\n")  # fmt: skip
    first, last = body(program).splitlines()[1:]
    assert first == "    y = numpy.linalg.norm(x)"
    assert last == "    return numpy.exp(x) + math.sqrt(4) + numpy.sum(x) + len(x) + y"


def test_fstrings_are_put_together(gather):
    program = gather("def stage(n, x):\n    return f'{n} of {x:.2f}, {n:03d}{{}}'\n")
    assert body(program).endswith(
        "return str(n) + ' of ' + sandseal.format_float('%.2f', x) + ', ' + sandseal.format_int('%03lld', n) + '{}'"
    )


@pytest.mark.parametrize(
    ("source", "line", "why", "hint"),
    [
        ("import re\n\n\ndef stage(x):\n    return re.sub('a', 'b', x)\n", 5, "the module 're'", "top level"),
        ("import numpy as np\n\n\ndef stage(x):\n    return np.fooo(x)\n", 5, "numpy has no 'fooo'", None),
        ("import numpy as np\n\n\ndef stage(x):\n    return np.einsum('i', x)\n", 5, "np.einsum is not among", None),
        ("import numpy as np\n\n\ndef stage(x):\n    return np.exp2(x)\n", 5, "np.exp2", "there is exp"),
        ("def stage(x):\n    return open('a')\n", 2, "open is not among", "top level"),
        ("def stage(x):\n    return y\n", 2, "nothing is called 'y'", None),
        ("T = [1, 'a']\n\n\ndef stage(x):\n    return T\n", 5, "mixes int and str", "top level"),
        ("class A:\n    pass\n\n\ndef stage(x):\n    return A()\n", 6, "'A' is a class", "tuples"),
        ("T = {}\n\n\ndef stage(x):\n    T[x] = 1\n    return x\n", 5, "tables are constants", "copy"),
        ("T = [1]\n\n\ndef stage(x):\n    T.append(x)\n    return x\n", 5, "tables are constants", "copy"),
        ("f = lambda x: x\n\n\ndef stage(x):\n    return f(x)\n", 1, "a `def` at the top level", "write it"),
        ("def stage(x):\n    return f'{x!r}'\n", 2, "no !r", "{value}"),
        ("def stage(x):\n    return f'{x:>8}'\n", 2, "the format '>8'", "'.2f'"),
    ],
)
def test_what_does_not_translate_says_where_and_what_to_do(gather, source, line, why, hint):
    with pytest.raises(Unsupported) as caught:
        gather(source)
    refusal = caught.value
    assert (refusal.file, refusal.line) == ("plugin.py", line)
    assert why in refusal.why
    assert hint is None or hint in refusal.hint
