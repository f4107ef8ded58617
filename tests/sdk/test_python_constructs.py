"""Every construct that sdk/numpy-python.md lists, in the sandbox and as plain Python."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sandseal_sdk.build import build_plugin
from sandseal_sdk.plugin.values import Value
from sandseal_sdk.testing.comparison import differences
from sandseal_sdk.testing.oracle import Oracle
from support.constructs import CALLS, GROUPS, INPUTS, read_group, write_plugin
from support.numpy_python_page import REFUSED, refusal_of

TOLERANCE = 1e-6  # sums of float32 add up in another order


def value(name, call):
    dtype, _, values = INPUTS[name]
    data = values[call]
    return Value((len(data),), data) if dtype == "BYTES" else Value(np.shape(data), np.asarray(data))


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """Every group built, side by side: each keeps a processor busy for many seconds."""
    folders = [tmp_path_factory.mktemp(name) for name in GROUPS]
    for name, folder in zip(GROUPS, folders, strict=True):
        write_plugin(read_group(name), folder)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(GROUPS, pool.map(build_plugin, folders), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_the_sandbox_and_plain_python_agree(name, plugins, call):
    group, built = read_group(name), plugins[name]
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
