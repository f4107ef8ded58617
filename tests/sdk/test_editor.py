"""Editors run clang by themselves; here the one inside the package ziglang plays their part."""

import json
import subprocess
import sys

import pytest

from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_sdk.scaffold import new_plugin
from sandseal_sdk.toolchains.editor import write_editor_settings


def flags_of(folder):
    first, add = (folder / ".clangd").read_text().splitlines()
    assert first == "CompileFlags:"
    return json.loads(add.removeprefix("  Add: "))


def understands(folder, source):
    pytest.importorskip("ziglang")
    command = [sys.executable, "-m", "ziglang", "clang", *flags_of(folder), "-Werror", "-fsyntax-only", source]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_clang_understands_a_new_plugin(tmp_path, language):
    folder = new_plugin(tmp_path / "mine", "mine", language, "pre")
    outcome = understands(folder, read_plugin_spec(folder).source)
    assert outcome.returncode == 0, outcome.stderr


def test_a_plugin_with_libc_finds_its_headers(make_plugin):
    source = """#include <math.h>
#include <sandseal.h>
#include <stdlib.h>
#ifndef __wasi__
#error no libc
#endif
SANDSEAL_STAGE(stage) { return call->flags ? malloc(1) != NULL : (int32_t)expf(1); }
"""
    folder = make_plugin("c", source, rest="libc = true")
    assert write_editor_settings(read_plugin_spec(folder)) == folder / ".clangd"
    outcome = understands(folder, "plugin.c")
    assert outcome.returncode == 0, outcome.stderr


def test_an_authors_own_settings_stay(make_plugin):
    folder = make_plugin("c", "")
    (folder / ".clangd").write_text("mine")
    assert write_editor_settings(read_plugin_spec(folder)) is None
    assert (folder / ".clangd").read_text() == "mine"
