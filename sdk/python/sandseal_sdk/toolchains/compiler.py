"""Running compilers, and what they share: where the libraries for authors lie, and how a module's memory starts."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from sandseal_sdk.errors import BuildError, ExtraMissing
from sandseal_sdk.plugin.plugin_spec import PluginSpec

Progress = Callable[[str], None]

STACK, INITIAL = 64 << 10, 1 << 20
"""What a compiled language's module starts with, in bytes: stack, and memory in all."""

_PATIENCE = 10.0  # seconds; a build whose libraries are in zig's cache takes less
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a tool ended, and what it printed on stderr."""

    succeeded: bool
    text: str


def run_tool(module: str, arguments: Sequence[str], folder: Path, progress: Progress, patience_text: str) -> Outcome:
    """Run a Python module that is a tool, in `folder`.

    Args:
        module: as in `python -m module`.
        arguments: what follows.
        progress: gets `patience_text` once, when the tool takes longer than usual.

    Raises:
        ExtraMissing: the package is not installed.
    """
    package_folder(module)
    command = [sys.executable, "-P", "-m", module, *arguments]  # -P: no module out of the author's folder
    return run_command(command, folder, progress, patience_text)


def run_command(command: Sequence[str], folder: Path, progress: Progress, patience_text: str) -> Outcome:
    """Run a program that is a tool, in `folder`; the rest as for `run_tool`.

    Raises:
        BuildError: it cannot be started.
    """
    try:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            encoding="utf-8", errors="replace", env=os.environ | {"PYTHONHASHSEED": "0"},
        )  # fmt: skip
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be run: {error.strerror}", hint="check its installation") from None
    try:
        text = _wait(process, progress, patience_text)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Outcome(process.returncode == 0, text)


def _wait(process: "subprocess.Popen[str]", progress: Progress, patience_text: str) -> str:
    try:
        return process.communicate(timeout=_PATIENCE)[1]
    except subprocess.TimeoutExpired:
        progress(patience_text)
        return process.communicate()[1]


def package_folder(module: str) -> Path:
    """Where the package of a module is installed.

    Raises:
        ExtraMissing: it is not.
    """
    package = module.partition(".")[0]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ExtraMissing(f"building plugins needs the package {package!r}", hint="pip install 'sandseal[sdk]'")
    return Path(found.origin).parent


def tool_version(package: str) -> str:
    """The installed version of a package.

    Raises:
        ExtraMissing: it is not installed.
    """
    package_folder({"sandseal": "sandseal_sdk"}.get(package, package))
    return version(package)


def memory_flags(limit_mib: int, stack: int = STACK, initial: int = INITIAL) -> Sequence[str]:
    """Linker flags for a module's memory, in bytes.

    Args:
        limit_mib: the stage's limit.
        stack: small, since the pages behind it are what the host keeps resident between instances.
        initial: what a typical call needs: growing costs a fresh instance more than all else that it does.
    """
    return f"-Wl,-z,stack-size={stack}", f"-Wl,--initial-memory={memory_bytes(limit_mib, initial)}"


def memory_bytes(limit_mib: int, initial: int = INITIAL) -> int:
    """How much memory a module starts with: what a typical call needs, and no more than the stage's limit."""
    return min(initial, limit_mib << 20)


def import_defines(spec: PluginSpec) -> Sequence[str]:
    """What tells sandseal.h which of the host's functions a plugin may use."""
    return [f"-DSANDSEAL_IMPORTS_{name.upper()}" for name in spec.imports]


def library_folder(language: str) -> Path:
    """Where the library for a language's authors lies: in the installed package, or in the repository's sdk/."""
    installed = _PACKAGE / "guest" / language
    return installed if installed.is_dir() else _PACKAGE.parents[1] / language


def cpp_folder() -> Path:
    """Where the C++ and C parts of the toolchains lie."""
    return _PACKAGE / "toolchains" / "cpp"
