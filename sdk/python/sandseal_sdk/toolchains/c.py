"""C and C++ to wasm: one source file (which may include others), with sandseal.h and sandseal.hpp to include."""

from collections.abc import Sequence
from pathlib import Path

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import (
    Progress,
    cpp_folder,
    import_defines,
    library_folder,
    memory_flags,
    package_folder,
    run_tool,
)
from sandseal_sdk.toolchains.diagnostics import SAID, read_diagnostics, settle, undefined_symbols

_FLAGS = ("-O3", "-msimd128", "-mbulk-memory", "-Wall", "-Wextra")
_C = ("-x", "c", "-std=gnu17", "-I", str(library_folder("c")))
# As `cc`, zig adds no libc++ to C++, whose first build takes minutes and which wants exceptions.
_CPP = (
    "-x", "c++", "-std=c++20", "-fno-exceptions", "-fno-rtti",
    "-I", str(library_folder("cpp")), "-I", str(library_folder("c")),
)  # fmt: skip
_BARE = ("-target", "wasm32-freestanding", "-Wl,--no-entry")
_LIBC = ("-target", "wasm32-wasi", "-mexec-model=reactor")
_LIBC_HEADERS = ("wasm-wasi-musl", "generic-musl")
_FIRST_LIBC = "the first build with libc on this machine compiles it (about 40 seconds, then cached)"
_WANTS_LIBC = "set `libc = true` in plugin.toml for a C library, or do without it"


def compile_c(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    """Compile a C plugin.

    Args:
        spec: the plugin.
        work: a folder for intermediate files.
        progress: gets lines for the author, warnings of the compiler included.

    Raises:
        BuildError: the compiler or linker refuses it.
    """
    return _compile(spec, _C, work, progress)


def compile_cpp(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    """Compile a C++ plugin; the rest as for `compile_c`."""
    return _compile(spec, _CPP, work, progress)


def editor_flags(spec: PluginSpec) -> Sequence[str]:
    """What clang must be told to see a plugin's source as the build does, without zig around it.

    Raises:
        ExtraMissing: the compiler, whose headers these are, is not installed.
    """
    headers = package_folder("ziglang") / "lib"
    system = (headers / "include", *(headers / "libc" / "include" / part for part in _LIBC_HEADERS))
    target = "wasm32-wasip1" if spec.libc else "wasm32"
    flags = _C if spec.language == "c" else _CPP
    return [f"--target={target}", *_FLAGS, *flags, *(part for folder in system for part in ("-isystem", str(folder)))]


def _compile(spec: PluginSpec, flags: Sequence[str], work: Path, progress: Progress) -> bytes:
    wasm = work / "module.wasm"
    memory = memory_flags(spec.limits.memory_mib)
    arguments = ["cc", *_FLAGS, *memory, "-I.", *flags, "-o", str(wasm.resolve()), spec.source]
    arguments += [*_LIBC, *import_defines(spec), str(cpp_folder() / "wasi.c")] if spec.libc else _BARE
    outcome = run_tool("ziglang", arguments, spec.folder, progress, _FIRST_LIBC)
    if missing := undefined_symbols(outcome.text):
        message = f"nothing defines {', '.join(missing)}"
        raise BuildError(message, hint=_WANTS_LIBC, symbols=missing, compiler=outcome.text[:SAID])
    hint = _WANTS_LIBC if "file not found" in outcome.text else None
    settle(outcome, read_diagnostics(outcome.text), progress, hint)
    return wasm.read_bytes()
