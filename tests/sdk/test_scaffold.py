import re

import pytest

from sandseal_sdk import harness
from sandseal_sdk.errors import FileExists, PluginFolderInvalid
from sandseal_sdk.plugin.plugin_spec import LANGUAGES, STAGES, read_plugin_spec
from sandseal_sdk.scaffold import new_plugin
from sandseal_sdk.toolchains import languages as toolchains
from support.rust import find_rust_or_skip


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_new_plugin_is_complete(tmp_path, language, stage):
    folder = new_plugin(tmp_path / "deep" / "mine", "my-plugin", language, stage)
    spec = read_plugin_spec(folder)
    assert (spec.name, spec.language, spec.position) == ("my-plugin", language, stage)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"README.md", "plugin.toml", spec.source} <= files
    assert sum(file.startswith("cases/") for file in files) == 2
    assert files.isdisjoint(set(LANGUAGES.values()) - {spec.source})
    assert not any(re.search("@[A-Z]+@", (folder / file).read_text(encoding="utf-8")) for file in files)


def test_every_language_is_known_everywhere():
    assert tuple(toolchains.LANGUAGES) == tuple(LANGUAGES)


FAST = ("c", "cpp")
TEMPLATES = [
    pytest.param(language, stage, marks=[] if language in FAST else pytest.mark.slow)
    for language in LANGUAGES
    for stage in STAGES
]


@pytest.mark.parametrize(("language", "stage"), TEMPLATES)
def test_a_new_plugin_builds_and_passes_its_tests(tmp_path, language, stage):
    if language == "rust":
        find_rust_or_skip()
    report = harness.test_plugin(new_plugin(tmp_path / "mine", "mine", language, stage))
    assert [(case.name, case.detail) for case in report.cases if not case.passed] == []


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExists):
        new_plugin(tmp_path, "mine", "c", "pre")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "language", "stage"), [("mine", "cobol", "pre"), ("mine", "c", "during"), ("../mine", "c", "pre")]
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(tmp_path, name, language, stage):
    with pytest.raises(PluginFolderInvalid):
        new_plugin(tmp_path / "new", name, language, stage)
    assert not (tmp_path / "new").exists()
