import pytest

from sandseal_sdk.errors import BuildError
from sandseal_sdk.toolchains.plugin_source import Unsupported, check_function, first_use, parse_source


def test_the_function_is_found():
    assert parse_source("plugin.py", '"""Über."""\n\n\ndef stage(x):\n    return x\n', "stage").lineno == 4


@pytest.mark.parametrize(
    ("source", "where", "why"),
    [("def stage(x, table):\n    return x +\n", 2, "invalid syntax"), ("def other(x):\n    return x\n", 1, "'stage'")],
)
def test_no_python_and_no_function_are_refused_with_the_line(source, where, why):
    with pytest.raises(Unsupported) as caught:
        parse_source("plugin.py", source, "stage")
    error = caught.value.as_error()
    assert isinstance(error, BuildError)
    assert error.message.startswith(f"plugin.py:{where}: ")
    assert why in error.message
    assert error.data == {"file": "plugin.py", "line": where}


def test_documentation_may_hold_any_character():
    check_function(parse_source("plugin.py", 'def stage(x):\n    """Größe."""\n    return x\n', "stage"), "plugin.py")


def test_first_use_finds_functions_and_attributes():
    source = "import numpy as np\n\ndef stage(x):\n    y = np.sqrt(x)\n    return y.transpose(0)\n"
    assert first_use("sqrt", source) == 4
    assert first_use("transpose", source) == 5
    assert first_use("mean", source) is None
