"""Building plugins from NumPy-Python."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from sandseal_host.errors import InputRefused, PluginTrapped
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.tensors import Tensor
from sandseal_sdk.build import build_plugin
from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.values import numpy_type
from sandseal_sdk.plugin.wasm_module import read_surface
from sandseal_signing.tensor import DataType

pytestmark = pytest.mark.slow

NUMBERS = [kind for kind in DataType if kind not in (DataType.BYTES, DataType.FP16, DataType.BF16)]
ASSET = 'imports = ["asset"]\nassets = ["table.txt"]'

TEXT = '''
"""Wörter."""
STOP = {"the": 1, "a": 2}
NAMES = ["zero", "one", "two"]


def count_letters(word):
    return len(word)


def stage(texts, one, table):
    words = []
    codes = []
    for text in texts:
        for word in text.lower().replace(",", " ").split():
            if word in STOP:
                codes.append(STOP[word])
            else:
                words.append(word.strip("."))
                codes.append(count_letters(word))
    if len(words) == 0:
        raise ValueError("no words in " + one)
    words.append(NAMES[len(one) % 3] + str(len(table)))
    return words, codes, one.upper()
'''


def test_arrays_of_every_type_go_in_and_come_out(make_plugin, call):
    names = [kind.lower() for kind in NUMBERS]
    source = f"def stage({', '.join(names)}):\n    return {', '.join(f'{name}[::-1, 1:]' for name in names)}\n"
    inputs = [(name, str(kind), ["n", 3]) for name, kind in zip(names, NUMBERS, strict=True)]
    outputs = [(name, dtype, ["n", 2]) for name, dtype, _ in inputs]
    built = build_plugin(make_plugin("python", source, inputs, outputs))
    assert read_surface(built.wasm.read_bytes()).imports == ()
    for rows in (5, 0):
        random = np.random.default_rng(1).integers(0, 2, (rows, 3))
        arrays = [random.astype(numpy_type(kind)) for kind in NUMBERS]
        for kind, given, got in zip(NUMBERS, arrays, call(built, *arrays), strict=True):
            assert got.dtype == numpy_type(kind), kind
            assert np.array_equal(got, given[::-1, 1:]), kind


def test_scalars_and_wider_types(make_plugin, call):
    source = "import numpy as np\n\n\ndef stage(x, n):\n    return x * n, n + 1, np.array([1, 2]) * n\n"
    outputs = [("y", "FP64", []), ("m", "INT64", []), ("z", "FP32", ["k"])]
    built = build_plugin(make_plugin("python", source, [("x", "FP32", []), ("n", "INT32", [])], outputs))
    y, m, z = call(built, np.float32(1.5), np.int32(4))
    assert (y, m, z.tolist()) == (6, 5, [4, 8])


@pytest.fixture
def text_plugin(make_plugin):
    inputs = [("texts", "BYTES", ["n"]), ("one", "BYTES", [1])]
    outputs = [("words", "BYTES", ["k"]), ("codes", "INT64", ["m"]), ("loud", "BYTES", [1])]
    return make_plugin("python", TEXT, inputs, outputs, rest=ASSET)


def test_text_lists_tables_and_assets(text_plugin, call):
    built = build_plugin(text_plugin)
    assert built.imports == ("asset",)
    assets = {"table.txt": b"12345"}
    words, codes, loud = call(built, [b"The cat, a h\xc3\xa4t.", b"dog\xff"], [b"ab"], assets=assets)
    assert words == [b"cat", b"h\xc3\xa4t", b"dog\xff", b"two5"]
    assert (codes.tolist(), loud) == ([1, 3, 2, 5, 4], [b"AB"])
    with pytest.raises(InputRefused, match="no words in n\u00e4h"):
        call(built, [b"the", b"a"], ["n\u00e4h".encode()], assets=assets)


def test_the_same_source_gives_the_same_bytes_anywhere(text_plugin, tmp_path):
    second = tmp_path / "elsewhere" / "deeper"
    shutil.copytree(text_plugin, second)
    wasm = build_plugin(text_plugin).wasm.read_bytes()
    assert wasm == build_plugin(second).wasm.read_bytes()
    assert str(tmp_path).encode() not in wasm


def test_text_that_is_no_number_is_a_value_error_as_in_python(make_plugin, call):
    source = "def stage(x):\n    return [int(x)], [float(x)]\n"
    built = build_plugin(
        make_plugin("python", source, [("x", "BYTES", [1])], [("i", "INT64", ["n"]), ("f", "FP64", ["m"])])
    )
    assert [value[0] for value in call(built, [b" -12 "])] == [-12, -12.0]
    for text in (b"12x", b"", b"x"):
        with pytest.raises(InputRefused) as caught:
            call(built, [text])
        with pytest.raises(ValueError, match="invalid literal") as python:
            int(text.decode())
        assert caught.value.message == str(python.value)


def test_any_other_exception_is_the_plugins_own_fault(make_plugin):
    source = "TABLE = {'a': 1}\n\n\ndef stage(x):\n    return [TABLE[x]]\n"
    folder = make_plugin("python", source, [("x", "BYTES", [1])], [("y", "INT64", ["n"])], rest='imports = ["log"]')
    built, lines = build_plugin(folder), []
    from sandseal_host.tensors import pack_bytes

    with (
        SandboxEngine(log=lambda *line: lines.append(line), pooling=False) as engine,
        engine.compile(built.wasm.read_bytes(), built.spec.stage, label="tried") as plugin,
    ):
        plugin.call([Tensor("x", DataType.BYTES, (1,), pack_bytes([b"a"]))])
        with pytest.raises(PluginTrapped):
            plugin.call([Tensor("x", DataType.BYTES, (1,), pack_bytes([b"b"]))])
    assert lines == [("tried", logging.ERROR, "KeyError: b")]


def test_an_instance_called_again_and_again_keeps_its_memory(make_plugin, engine):
    source = "import numpy as np\n\n\ndef stage(x):\n    return np.concatenate((x, x))\n"
    built = build_plugin(make_plugin("python", source, rest="limits = { memory_mib = 8 }"))
    x = np.zeros(200_000, np.float32)
    tensor = Tensor("x", DataType.FP32, x.shape, x)
    with engine.compile(built.wasm.read_bytes(), built.spec.stage) as plugin, plugin.instance() as instance:
        for _ in range(50):
            instance.call((tensor,))


def test_print_goes_nowhere_where_the_log_is_not_granted(make_plugin, call):
    silent = build_plugin(make_plugin("python", "def stage(x):\n    print('seen')\n    return x\n"))
    assert silent.imports == ()
    assert call(silent, np.ones(2, np.float32))[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("source", "start", "why"),
    [
        ("import numpy as np\n\n\ndef stage(x):\n    y = x\n    return np.fooo(y)\n", "plugin.py:6: ", "fooo"),
        ("def stage(x):\n    y = 'a'\n    z = x + y\n    return z\n", "plugin.py:3: ", "Invalid operand for `+`"),
        ("T = 1 / 0\n\n\ndef stage(x):\n    return x\n", "plugin.py:1: ", "ZeroDivisionError: division by zero"),
        ("def stage(x):\n    y = x\n    return y.fooo()\n", "plugin.py:3: ", "nothing here has 'fooo'"),
        ("def stage(x):\n    y = x * 2\n    return (y + 1).transpose(0)\n", "plugin.py:3: ", "'transpose'"),
        (
            "def stage(x):\n    return x.reshape(1, x.size)\n",
            "plugin.py: ",
            "'y' is FP32 [m] in plugin.toml, but stage",
        ),
        ("def stage(x):\n    return [1.5, 2.5], x\n", "plugin.py: ", "number of axes"),
        ("def stage(x):\n    return x\n", "plugin.py: ", "another kind of numbers: use .astype"),
    ],
    ids=["unknown", "types", "top", "method", "transpose", "axes", "tuple", "kind"],
)
def test_a_compile_error_shows_the_authors_file_and_line(make_plugin, source, start, why):
    outputs = [("y", "INT32" if "kind" in why else "FP32", ["m"])]
    with pytest.raises(BuildError) as caught:
        build_plugin(make_plugin("python", source, outputs=outputs))
    assert caught.value.message.startswith(start)
    assert why in caught.value.message
    assert caught.value.data["file"] == "plugin.py"
    assert "Traceback" not in caught.value.message
    assert "pythran" not in caught.value.message


def test_half_precision_is_for_other_languages(make_plugin):
    with pytest.raises(BuildError, match="'x' is FP16") as caught:
        build_plugin(make_plugin("python", "def stage(x):\n    return x\n", [("x", "FP16", ["n"])]))
    assert "C" in caught.value.hint


def test_the_pages_example_is_a_plugin(make_plugin, call):
    page = (Path(__file__).resolve().parents[2] / "sdk" / "numpy-python.md").read_text(encoding="utf-8")
    source = page.split("```python\n")[1].split("```")[0].replace("def tokenize", "def stage")
    settings = "parameters = { most = 3 }\nlimits = { memory_mib = 32, time_ms = 1000 }"
    folder = make_plugin("python", source, [("text", "BYTES", [1])], [("ids", "INT64", ["n"])], rest=settings)
    words = [f"word{i}" for i in range(30_000)]
    (folder / "vocabulary.txt").write_text("\n".join(words), encoding="utf-8")
    (folder / "words.py").write_text("def split_words(text):\n    return text.split()\n", encoding="utf-8")
    built = build_plugin(folder)
    assert call(built, ["WORD7 w\u00f6rd29999 nix".encode()])[0].tolist() == [7, 29999, 0]
    with pytest.raises(InputRefused, match="4 words; at most 3 are allowed"):
        call(built, [b"a b c d"])
    assert call(built, [b"a b c d"], params=b'{"most": 4}')[0].tolist() == [0] * 4
    with pytest.raises(InputRefused, match="parameters: most must be int"):
        call(built, [b"a"], params=b'{"most": "4"}')


def test_settings_of_every_type(make_plugin, call):
    source = "def stage(x, *, i, f, on, s, words, rates):\n"
    source += "    return [f'{i} {f} {on} {s}'] + words + [f'{k}={rates[k]}' for k in sorted(rates)]\n"
    settings = 'parameters = { i = 1, f = 0.5, on = true, s = "\u00fc" }\n'
    settings += 'config = { words = ["a"], rates = { "b" = 1 , "a" = 2.5 }, unused = [{}] }'
    built = build_plugin(make_plugin("python", source, outputs=[("y", "BYTES", ["k"])], rest=settings))
    x = np.zeros(0, np.float32)
    assert call(built, x)[0] == ["1 0.5 True \u00fc".encode(), b"a", b"a=2.5", b"b=1.0"]
    given = {"o": {"i": "}"}, "i": -(1 << 40), "f": 2, "on": False, "s": '"\u00e4\\ \U0001f600\n'}
    wanted = '-1099511627776 2.0 False "\u00e4\\ \U0001f600\n'
    for escaped in (True, False):
        params = json.dumps(given, ensure_ascii=escaped).encode()
        assert call(built, x, params=params)[0][0] == wanted.encode()
    for params in (b'{"i": 1.5}', b'{"on": 1}', b'{"s": null}', b'{"i": 9223372036854775808}'):
        with pytest.raises(InputRefused, match=r"parameters: \w+ must be"):
            call(built, x, params=params)
