"""The pytest plugin, in a pytest of its own."""

import json
import os
from pathlib import Path

import pytest

from sandseal_sdk.scaffold import new_plugin

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.slow

# pytester gives its tests a home of their own, where zig would compile its libraries again.
CACHE = os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(Path.home() / ".cache" / "zig"))


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest in the folder.

    Without faulthandler, which at the end would take back its signal handlers, and wasmtime's with them: the next trap
    of a guest would then end this process.
    """
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", CACHE)

    def run(*arguments):
        return pytester.runpytest("--assert=plain", "-p", "no:hypothesispytest", "-p", "no:faulthandler", *arguments)

    return run


@pytest.fixture
def folder(pytester):
    return new_plugin(pytester.path / "mine", "mine", "c", "pre")


def test_cases_are_tests(run, folder):
    (folder / "cases" / "wrong.json").write_text('{"inputs": {"values": [1, 3]}, "outputs": {"x": [[-1, 2]]}}')
    (folder / "cases" / "broken.json").write_text("{")
    result = run("-v")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*broken.json: broken.json: not strict JSON*", "*output 'x' ?0, 1? is 1.0, not 2.0*"])
    assert "Traceback" not in result.stdout.str()


def test_a_plugin_that_does_not_build_says_why(run, folder):
    (folder / "plugin.c").write_text("nonsense")
    result = run()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*plugin.c:1:1: *"])


def test_golden_outputs_are_written_on_request(run, folder):
    case = folder / "cases" / "new.json"
    case.write_text('{"inputs": {"values": [1, 3]}, "outputs": {}}')
    run("--sandseal-update").assert_outcomes(passed=3)
    assert json.loads(case.read_text())["outputs"] == {"x": [[-1.0, 1.0]]}


def test_other_projects_plugin_toml_is_none_of_ours(pytester, run):
    (pytester.path / "plugin.toml").write_text('name = "something else"')
    run().assert_outcomes()


# [pytest example
EXAMPLE = """
from pathlib import Path

import pytest

from sandseal_host.errors import InputRefused

FOLDER = Path(__file__).parent / "mine"


def test_a_row_comes_out_centred(sandseal_plugin):
    result = sandseal_plugin(FOLDER).call({"values": [1, 2, 3]})
    assert abs(result.outputs["x"].mean()) < 1e-6
    assert result.fuel < 10_000


def test_nothing_is_refused(sandseal_plugin):
    with pytest.raises(InputRefused, match="values is empty"):
        sandseal_plugin(FOLDER).call({"values": []})
"""
# pytest example]


def test_plugins_are_called_from_tests_of_ones_own(pytester, run, folder):
    pytester.makepyfile(EXAMPLE)
    run("-k", "row or nothing").assert_outcomes(passed=2, deselected=2)
