"""Rust to wasm: the machine's rustc, with sandseal.rs as the crate `sandseal`; no Cargo, no other crates."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandseal_sdk.errors import ExtraMissing
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import Progress, library_folder, memory_flags, run_command
from sandseal_sdk.toolchains.diagnostics import Diagnostic, settle

_TARGET = "wasm32-unknown-unknown"
_FLAGS = (
    "--edition=2021", f"--target={_TARGET}", "-Copt-level=3", "-Ccodegen-units=1", "-Cpanic=abort", "-Cdebuginfo=1",
    "-Ctarget-feature=+simd128,+bulk-memory", "--error-format=json",
)  # fmt: skip
_HINT = (
    "on Debian and Ubuntu: apt install rustc libstd-rust-dev-wasm32 lld; "
    f"with rustup: rustup target add {_TARGET}; the environment's RUSTC names another compiler"
)
_PATIENCE = "the Rust compiler is still at work"


@dataclass(frozen=True, slots=True)
class RustCompiler:
    """A rustc that can build for wasm.

    Args:
        command: the program.
        version: what it says of itself, `rustc -vV`.
        linker: flags that choose its linker.
    """

    command: str
    version: str
    linker: tuple[str, ...]


@cache
def find_rust() -> RustCompiler:
    """The compiler to use: the environment's RUSTC, or rustc on the path.

    Raises:
        ExtraMissing: there is none, or it cannot build for wasm; the hint has the line that installs one.
    """
    command = shutil.which(os.environ.get("RUSTC", "rustc"))
    if command is None:
        raise ExtraMissing("building Rust plugins needs rustc, and there is none", hint=_HINT)
    version = _ask(command, "-vV")
    libraries = Path(_ask(command, "--print", "target-libdir", f"--target={_TARGET}").strip())
    if not any(libraries.glob("libstd-*.rlib")):
        release = version.partition("\n")[0]
        raise ExtraMissing(f"{command} ({release}) has no standard library for {_TARGET}", hint=_HINT)
    return RustCompiler(command, version, _linker(command, version))


def _ask(command: str, *arguments: str) -> str:
    done = subprocess.run([command, *arguments], capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise ExtraMissing(f"{command} does not run: {done.stderr.strip()[:500]}", hint=_HINT)
    return done.stdout


def _linker(command: str, version: str) -> tuple[str, ...]:
    """Flags for the linker: rustup brings rust-lld, a distribution's rustc needs the lld of its own LLVM version."""
    host = re.search(r"^host: (\S+)$", version, re.MULTILINE)
    llvm = re.search(r"^LLVM version: (\d+)", version, re.MULTILINE)
    root = Path(_ask(command, "--print", "sysroot").strip())
    if host and any((root / "lib" / "rustlib" / host[1] / "bin").glob("rust-lld*")):
        return ()
    for name in (f"wasm-ld-{llvm[1]}" if llvm else "wasm-ld", "wasm-ld"):
        if found := shutil.which(name) or shutil.which(name, path=str(Path(command).parent)):
            return f"-Clinker={found}", "-Clinker-flavor=wasm-ld"
    raise ExtraMissing(f"{command} has no linker for wasm: there is no wasm-ld", hint=_HINT)


def compile_rust(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    """Compile a Rust plugin.

    Args:
        spec: the plugin.
        work: a folder for intermediate files.
        progress: gets lines for the author, warnings of the compiler included.

    Raises:
        BuildError: the compiler refuses it.
        ExtraMissing: there is no rustc for wasm.
    """
    rust, work = find_rust(), work.resolve()
    library, crate, wasm = library_folder("rust"), work / "libsandseal.rlib", work / "module.wasm"
    flags = [*_FLAGS, *(f"--cfg=sandseal_imports_{name}" for name in spec.imports)]
    flags += [f"--remap-path-prefix={library}=/sandseal"]
    arguments = ["--crate-type=rlib", "--cap-lints=allow", "-o", str(crate), str(library / "sandseal.rs")]
    _run([rust.command, *flags, *arguments], spec, progress)
    arguments = ["--crate-type=cdylib", "--crate-name=plugin", "-Clto=fat", f"--extern=sandseal={crate}"]
    arguments += [*rust.linker, *_memory(spec), "-Clink-arg=--demangle", "-o", str(wasm), spec.source]
    _run([rust.command, *flags, *arguments], spec, progress)
    return wasm.read_bytes()


def _memory(spec: PluginSpec) -> list[str]:
    flags = memory_flags(spec.limits.memory_mib)
    return [f"-Clink-arg={flag.removeprefix('-Wl,').replace('-z,', '-z')}" for flag in flags]


def _run(command: Sequence[str], spec: PluginSpec, progress: Progress) -> None:
    outcome = run_command(command, spec.folder, progress, _PATIENCE)
    settle(outcome, read_messages(outcome.text), progress)


def read_messages(stderr: str) -> Sequence[Diagnostic]:
    """The messages in rustc's JSON, in order; those without a place, as of the linker, are left out."""
    found = []
    for line in stderr.splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        place = next((span for span in said.get("spans", ()) if span["is_primary"]), None)
        if place:
            where = place["file_name"], place["line_start"], place["column_start"]
            found.append(Diagnostic(said["level"], *where, said["message"], _excerpt(said["rendered"])))
    return found


def _excerpt(rendered: str) -> str:
    """What rustc renders, below the message and the place."""
    _, _, below = rendered.partition("\n  |\n") if "\n  |\n" in rendered else rendered.partition("|\n")
    return below.rstrip()
