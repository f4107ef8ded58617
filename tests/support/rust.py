"""A Rust compiler for wasm: the machine's, or Debian's, fetched without root into the user's cache."""

import os
import shutil
import stat
import subprocess
from functools import cache
from pathlib import Path

import pytest

from sandseal_sdk.errors import ExtraMissing
from sandseal_sdk.toolchains.node import cache_folder
from sandseal_sdk.toolchains.rust import find_rust

PACKAGES = ("rustc", "libstd-rust-dev-wasm32", "lld")
SECONDS = 600.0  # for one command


def find_rust_or_skip() -> None:
    """See to it that `find_rust` finds a compiler, or skip the test and say why."""
    try:
        find_rust()
    except ExtraMissing as error:
        command, why = fetch_debian_rust()
        if command is None:
            pytest.skip(f"{error.message}; and Debian's cannot be fetched: {why}")
        os.environ["RUSTC"] = str(command)
        find_rust.cache_clear()
        try:
            find_rust()
        except ExtraMissing as still:  # where parts of it are installed, apt fetches the others only
            pytest.skip(f"{error.message}; and Debian's does not run apart: {still.message}")


@cache
def fetch_debian_rust() -> tuple[Path | None, str]:
    """A `rustc` that runs out of the cache, or none and the reason; needs apt and dpkg, but no root."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None, "there is no apt-get"
    target = cache_folder() / "debian-rust"
    if not target.is_dir():
        making = target.with_name(f"{target.name}.{os.getpid()}")
        try:
            _download(making)
            making.rename(target)
        except (OSError, subprocess.SubprocessError) as error:
            return None, str(getattr(error, "stderr", None) or error)[-500:]
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return target / "bin" / "rustc", ""


def _download(folder: Path) -> None:
    lists, archives, root = folder / "lists", folder / "archives", folder / "root"
    for made in (lists / "partial", archives / "partial"):
        made.mkdir(parents=True)
    options = {
        "Dir::State::lists": lists, "Dir::Cache": folder, "Dir::Cache::archives": archives,
        "Debug::NoLocking": "1", "APT::Sandbox::User": "root", "APT::Install-Recommends": "0",
    }  # fmt: skip
    apt = ["apt-get", "-qq", "-y", *(f"-o{name}={value}" for name, value in options.items())]
    _run([*apt, "update"])
    _run([*apt, "--download-only", "install", *PACKAGES])
    for archive in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(archive), str(root)])
        archive.unlink()
    command = folder / "bin" / "rustc"
    command.parent.mkdir()
    for linker in (root / "usr" / "bin").glob("wasm-ld*"):
        (command.parent / linker.name).symlink_to(Path("..") / linker.relative_to(folder))
    command.write_text(_SCRIPT, encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


# The packages' libraries may not be on this machine; `find_rust` looks for the linker beside the compiler, too.
_SCRIPT = """#!/bin/sh
usr=$(dirname "$0")/../root/usr
LD_LIBRARY_PATH=$(echo "$usr"/lib/*-linux-gnu "$usr"/lib/llvm-*/lib | tr ' ' ':')
PATH=$usr/bin:$PATH
export LD_LIBRARY_PATH PATH
exec "$usr/bin/rustc" "$@"
"""


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
