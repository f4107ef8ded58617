import json

import numpy as np
import pytest

from sandseal_host.errors import InputRefused
from sandseal_sdk import harness
from sandseal_sdk.errors import CaseInvalid, PluginFolderInvalid

pytestmark = pytest.mark.slow  # each starts processes

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


def test_a_python_plugin_must_agree_with_plain_python(make_plugin):
    # A Python int has 64 bits in a plugin; only running both sides shows where that matters.
    source = (
        "def stage(x):\n    if x.size == 2:\n        raise KeyError('two')\n    return [float(int(x[0]) * int(x[0]))]\n"
    )
    folder = make_plugin("python", source, [("x", "INT64", ["n"])], [("y", "FP64", ["m"])])
    (folder / "cases").mkdir()
    (folder / "cases" / "a.json").write_text('{"inputs": {"x": [1000]}}')
    (folder / "cases" / "b.json").write_text('{"inputs": {"x": [10000000000]}}')
    (folder / "cases" / "c.json").write_text('{"inputs": {"x": [1, 2]}}')
    small, large, fails = harness.test_plugin(folder).cases
    assert small.passed
    assert "plain Python raises KeyError: 'two'" in fails.detail
    assert fails.detail.endswith("in sandseal_stage at plugin.py:3")
    assert "not 1e+20" in large.detail
    assert "(plain Python)" in large.detail


def test_a_report_says_what_the_call_took(run):
    first, _ = run(inputs={"x": [1, 2]})
    again, _ = run(inputs={"x": [1, 2]})
    longer, _ = run(inputs={"x": [1] * 100})
    assert first.fuel == again.fuel < longer.fuel
    assert first.memory_bytes == 1 << 20


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"fuel": 50}, "instructions, over the case's 50"),
        ({"memory_mib": 1}, ""),
        ({"fuel": 10**6, "time_ms": 10**6}, ""),
    ],
)
def test_a_case_may_limit_what_the_call_takes(run, limits, why):
    result, _ = run(inputs={"x": [1] * 10}, limits=limits)
    assert why in result.detail
    assert result.passed == (not why)


def test_a_trap_says_at_which_line(make_plugin):
    source = DOUBLE.replace("__builtin_trap();", "return ((int(*)(void))12345)();")
    folder = make_plugin("c", source, rest='imports = ["log"]')
    (folder / "cases").mkdir()
    (folder / "cases" / "one.json").write_text('{"inputs": {"x": [-1]}}')
    (result,) = harness.test_plugin(folder).cases
    assert result.detail.splitlines()[1:] == ["    in stage at plugin.c:7"]


def test_update_writes_what_golden_cases_want_and_nothing_else(make_plugin):
    folder = make_plugin("c", DOUBLE, rest='imports = ["log"]', name="golden")
    (folder / "cases").mkdir()
    cases = {
        "new": '{"inputs": {"x": [0.1]}, "outputs": {}}',
        "old": '{"inputs": {"x": [1]}, "outputs": {"y": [3]}, "tolerance": 0.1}',
        "right": '{"inputs": {"x": [1]},    "outputs": {"y": [2]}}',
        "large": '{"inputs": {"x": {"shape": [65], "fill": 2}}, "outputs": {}}',
        "plain": '{"inputs": {"x": [1]}}',
        "refuses": '{"inputs": {"x": []}, "refused": "is empty"}',
        "wrong": '{"inputs": {"x": []}, "outputs": {"y": []}}',
    }
    for name, text in cases.items():
        (folder / "cases" / f"{name}.json").write_text(text)
    report = harness.test_plugin(folder, update=True)
    assert [case.name for case in report.cases if not case.passed] == ["wrong"]
    written = {name: (folder / "cases" / f"{name}.json").read_text() for name in cases}
    changed = {name: json.loads(text)["outputs"] for name, text in written.items() if text != cases[name]}
    assert changed == {"new": {"y": [0.2]}, "old": {"y": [2.0]}, "large": {"y": {"file": "large.y.npy"}}}
    assert written["old"] == '{\n  "inputs": {"x": [1]},\n  "outputs": {"y": [2.0]},\n  "tolerance": 0.1\n}\n'
    assert np.load(folder / "cases" / "large.y.npy").tolist() == [4.0] * 65


def test_a_plugin_is_called_as_a_function(make_plugin):
    folder = make_plugin("c", DOUBLE, rest='imports = ["log"]')
    with harness.load_plugin(folder) as plugin:
        result = plugin.call({"x": np.array([1, 2], np.float32)})
        assert result.outputs["y"].tolist() == [2, 4]
        assert result.memory_bytes == 1 << 20
        assert result.fuel == plugin.call({"x": [3, 4]}, {"unused": 1}).fuel > 0
        with pytest.raises(InputRefused, match="x is empty"):
            plugin.call({"x": []})
        with pytest.raises(CaseInvalid, match=r"\['z'\]; plugin.toml names \['x'\]"):
            plugin.call({"z": []})
