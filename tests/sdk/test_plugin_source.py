import pytest

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin_spec import read_plugin_spec
from sandseal_sdk.toolchains.plugin_source import check_source, first_use


@pytest.fixture
def spec(make_plugin):
    return read_plugin_spec(make_plugin("python", "", rest='imports = ["asset"]\nassets = ["a.txt"]'))


def test_a_plain_function_passes(spec):
    check_source(spec, '"""Über."""\n\ndef stage(x, table):\n    """Größe."""\n    return x\n')


@pytest.mark.parametrize(
    ("source", "where", "why"),
    [
        ("def stage(x, table):\n    return x +\n", 2, "invalid syntax"),
        ("def other(x, table):\n    return x\n", 1, "no function 'stage'"),
        ("\ndef stage(x):\n    return x\n", 2, "one plain parameter for each of: x, a.txt"),
        ("def stage(x, table=''):\n    return x\n", 1, "plain parameter"),
        ("def stage(*values):\n    return values[0]\n", 1, "plain parameter"),
        ("def stage(x, table):\n    try:\n        return x\n    except ValueError:\n        return x\n", 2, "catch"),
        ("def stage(x, table):\n    return x if table == 'ü' else -x\n", 2, "ASCII"),
        ("def stage(x, table):\n    return f'{x}ü'\n", 2, "ASCII"),
    ],
)
def test_what_would_go_wrong_silently_is_refused_with_its_line(spec, source, where, why):
    with pytest.raises(BuildError) as caught:
        check_source(spec, source)
    assert caught.value.message.startswith(f"plugin.py:{where}: ")
    assert why in caught.value.message
    assert caught.value.data == {"file": "plugin.py", "line": where}


def test_first_use_finds_functions_and_attributes():
    source = "import numpy as np\n\ndef stage(x):\n    y = np.sqrt(x)\n    return y.transpose(0)\n"
    assert first_use("sqrt", source) == 4
    assert first_use("transpose", source) == 5
    assert first_use("mean", source) is None
