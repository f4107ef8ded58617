"""Every construct that sdk/numpy-python.md lists, in the sandbox and as plain Python."""

import numpy as np
import pytest

from sandseal_sdk.build import build_plugin
from sandseal_sdk.comparison import differences
from sandseal_sdk.oracle import Oracle
from sandseal_sdk.values import Value
from support.constructs import CALLS, GROUPS, INPUTS, read_group, write_plugin
from support.numpy_python_page import REFUSED, refusal_of

TOLERANCE = 1e-6  # sums of float32 add up in another order


def value(name, call):
    dtype, _, values = INPUTS[name]
    data = values[call]
    return Value((len(data),), data) if dtype == "BYTES" else Value(np.shape(data), np.asarray(data))


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_the_sandbox_and_plain_python_agree(name, tmp_path, call):
    group = read_group(name)
    write_plugin(group, tmp_path)
    built = build_plugin(tmp_path)
    oracle = Oracle(built.spec, {})
    for number in range(CALLS):
        values = [value(name, number) for name in group.takes]
        got = [
            Value(wanted.shape, mine) if isinstance(mine, list) else Value(mine.shape, mine)
            for mine, wanted in zip(call(built, *(given.data for given in values)), oracle.call(values), strict=True)
        ]
        assert differences(got, oracle.call(values), built.spec, TOLERANCE, "plain Python") == ""


@pytest.mark.parametrize("source", REFUSED)
def test_what_is_refused_has_its_line_and_a_way_out(source):
    refusal = refusal_of(source)
    assert (refusal.file, refusal.line) == ("plugin.py", 2)
    assert refusal.hint
