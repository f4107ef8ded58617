"""The authors' commands: what they print, and how they leave."""

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from sandseal_sdk.cli import build_app
from sandseal_sdk.scaffold import new_plugin
from sandseal_sdk.testing import watch

pytestmark = pytest.mark.slow  # each starts processes


@pytest.fixture
def folder(tmp_path):
    return new_plugin(tmp_path / "mine", "mine", "c", "pre")


def run(*arguments):
    return CliRunner().invoke(build_app(), [str(argument) for argument in arguments])


def test_the_version_is_said():
    assert run("--version").stdout == f"sandseal {version('sandseal')}\n"


def test_each_case_has_a_line_with_what_it_took(folder):
    done = run("test", folder)
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()
    assert first.startswith("ok  empty  ")
    assert second.startswith("ok  three  ")
    assert all("ms  1.00 MiB  " in line and line.endswith(" instructions") for line in (first, second))


def test_a_failed_case_is_status_1_and_update_mends_it(folder):
    case = folder / "cases" / "three.json"
    case.write_text('{"inputs": {"values": [1, 3]}, "outputs": {"x": [[0, 0]]}}')
    assert run("test", folder).exit_code == 1
    assert run("test", folder, "--update").exit_code == 0
    assert '"x": [[-1.0, 1.0]]' in case.read_text()


def test_watch_goes_on_after_a_build_that_fails(folder, monkeypatch):
    source = (folder / "plugin.c").read_text()

    def changes(folder):
        for text in (source, "nonsense", source):
            (folder / "plugin.c").write_text(text)
            yield

    monkeypatch.setattr(watch, "changes", changes)
    done = run("test", folder, "--watch")
    assert done.exit_code == 0
    assert done.stdout.count("ok  three") == 2
    assert done.stderr.count("error[build_failed]: plugin.c:1:1:") == 1
    assert done.stderr.count("waiting for changes") == 3


def test_bench_is_a_table(folder):
    done = run("bench", folder, "--rounds", 3)
    assert done.exit_code == 0
    assert "three" in done.stdout
    assert "1.00" in done.stdout
