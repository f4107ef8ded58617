import json

import pytest

from sandseal_sdk import harness
from sandseal_sdk.errors import CaseInvalid, PluginFolderInvalid

DOUBLE = """#include <sandseal.h>
SANDSEAL_STAGE(stage) {
    const struct sandseal_tensor *x = sandseal_input(call, 0);
    const float *from = sandseal_data(x);
    if (x->shape[0] == 0) return sandseal_refuse(call, "x is empty");
    for (int64_t i = 0; from[0] == 0; i++) sandseal_log(SANDSEAL_INFO, "for ever");
    if (from[0] < 0) __builtin_trap();
    float *to = sandseal_make(sandseal_output(call, 0), x->shape);
    for (int64_t i = 0; i < x->shape[0]; i++) to[i] = from[i] * 2;
    return SANDSEAL_DONE;
}
"""


@pytest.fixture
def run(make_plugin):
    folder = make_plugin("c", DOUBLE, rest='imports = ["log"]\nlimits = { memory_mib = 8, time_ms = 50 }')
    (folder / "cases").mkdir()

    def run(**case):
        (folder / "cases" / "one.json").write_text(json.dumps(case))
        lines = []
        report = harness.test_plugin(folder, lines.append)
        (result,) = report.cases
        assert report.passed == result.passed
        return result, lines

    return run


@pytest.mark.parametrize(
    "case",
    [
        {"inputs": {"x": [1, 2]}},
        {"inputs": {"x": [1, 2]}, "outputs": {"y": [2, 4]}},
        {"inputs": {"x": [1, 2]}, "outputs": {"y": [2.3, 3.8]}, "tolerance": 0.2},
        {"inputs": {"x": []}, "refused": "is empty"},
        {"inputs": {"x": [0]}, "fails": "plugin_timeout"},
        {"inputs": {"x": [-1]}, "fails": "plugin_trapped"},
    ],
    ids=["runs", "equal", "close", "refused", "timeout", "trap"],
)
def test_cases_that_go_as_they_should(run, case):
    result, _ = run(**case)
    assert (result.passed, result.detail) == (True, "")
    assert result.milliseconds > 0


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({"inputs": {"x": [1, 2]}, "outputs": {"y": [2, 5]}}, "output 'y' [1] is 4.0, not 5.0; 1 of 2 differ"),
        ({"inputs": {"x": [1, 2]}, "outputs": {"y": [[2, 4]]}}, "has shape [2], not [1, 2]"),
        ({"inputs": {"x": [1, 2]}, "refused": "no"}, "succeeds, but must end in a refusal"),
        ({"inputs": {"x": [1]}, "fails": "plugin_trapped"}, "must end in plugin_trapped"),
        ({"inputs": {"x": []}}, "input_refused: x is empty"),
        ({"inputs": {"x": []}, "refused": "too large"}, "input_refused: x is empty"),
        ({"inputs": {"x": [-1]}, "fails": "plugin_timeout"}, "plugin_trapped: "),
    ],
)
def test_cases_that_do_not_say_why(run, case, why):
    result, _ = run(**case)
    assert not result.passed
    assert why in result.detail


def test_what_the_plugin_logs_reaches_the_author(run):
    _, lines = run(inputs={"x": [0]}, fails="plugin_timeout")
    assert "tried: for ever" in lines


def test_a_plugin_without_cases_does_not_pass(make_plugin):
    with pytest.raises(CaseInvalid):
        harness.test_plugin(make_plugin("c", DOUBLE, rest='imports = ["log"]'))


def test_an_asset_that_is_not_there_is_named(make_plugin):
    folder = make_plugin("c", DOUBLE, rest='imports = ["log", "asset"]\nassets = ["labels.txt"]')
    (folder / "cases").mkdir()
    (folder / "cases" / "one.json").write_text('{"inputs": {"x": [1]}}')
    with pytest.raises(PluginFolderInvalid, match=r"labels\.txt"):
        harness.test_plugin(folder)


@pytest.mark.slow
def test_a_python_plugin_must_agree_with_plain_python(make_plugin):
    # A Python int has 32 bits in a plugin; only running both sides shows where that matters.
    source = "def stage(x):\n    return [int(x[0]) * int(x[0])]\n"
    folder = make_plugin("python", source, [("x", "INT32", ["n"])], [("y", "INT64", ["m"])])
    (folder / "cases").mkdir()
    (folder / "cases" / "a.json").write_text('{"inputs": {"x": [1000]}}')
    (folder / "cases" / "b.json").write_text('{"inputs": {"x": [1000000]}}')
    small, large = harness.test_plugin(folder).cases
    assert small.passed
    assert "not 1000000000000" in large.detail
    assert "(plain Python)" in large.detail
