"""Which rustc is taken; test_languages.py builds with it."""

import os

import pytest

from sandseal_sdk.errors import ExtraMissing
from sandseal_sdk.toolchains.rust import find_rust

VERSION = "rustc 1.63.0\\nhost: x86_64-unknown-linux-gnu\\nrelease: 1.63.0\\nLLVM version: 14.0.6"
ANSWERS = """#!/bin/sh
case "$*" in
    -vV) printf '{version}\\n' ;;
    *target-libdir*) echo {root}/std ;;
    *sysroot*) echo {root} ;;
esac
"""


@pytest.fixture
def rustc(monkeypatch, tmp_path):
    """A compiler that only answers questions, without a standard library."""
    path = tmp_path / "bin" / "rustc"
    path.parent.mkdir()
    path.write_text(ANSWERS.format(version=VERSION, root=tmp_path))
    path.chmod(0o755)
    monkeypatch.setenv("RUSTC", str(path))
    monkeypatch.setenv("PATH", os.defpath)
    find_rust.cache_clear()
    yield path
    find_rust.cache_clear()


@pytest.fixture
def standard_library(tmp_path):
    (tmp_path / "std").mkdir()
    (tmp_path / "std" / "libstd-1234.rlib").touch()


def test_without_a_compiler_the_lines_that_install_one_are_told(monkeypatch, rustc):
    monkeypatch.setenv("RUSTC", "/no/rustc")
    with pytest.raises(ExtraMissing, match="there is none") as caught:
        find_rust()
    assert "apt install rustc libstd-rust-dev-wasm32 lld" in caught.value.hint
    assert "rustup target add wasm32-unknown-unknown" in caught.value.hint


def test_a_compiler_for_other_targets_only_is_none(rustc):
    with pytest.raises(ExtraMissing, match=r"rustc 1\.63\.0\) has no standard library for wasm32-unknown-unknown"):
        find_rust()


@pytest.mark.usefixtures("standard_library")
def test_rustups_compiler_brings_its_linker(rustc, tmp_path):
    bundled = tmp_path / "lib" / "rustlib" / "x86_64-unknown-linux-gnu" / "bin" / "rust-lld"
    bundled.parent.mkdir(parents=True)
    bundled.touch()
    assert find_rust().linker == ()
    assert find_rust().version.startswith("rustc 1.63.0")


@pytest.mark.usefixtures("standard_library")
def test_a_distributions_compiler_takes_the_linker_of_its_own_llvm(monkeypatch, rustc, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExtraMissing, match="there is no wasm-ld"):
        find_rust()
    for name in ("wasm-ld", "wasm-ld-14"):
        (rustc.parent / name).write_text("#!/bin/sh\n")
        (rustc.parent / name).chmod(0o755)
    assert find_rust().linker == (f"-Clinker={rustc.parent / 'wasm-ld-14'}", "-Clinker-flavor=wasm-ld")
