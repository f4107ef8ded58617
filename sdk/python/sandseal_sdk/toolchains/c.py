"""C to wasm: one source file (which may include others), with sandseal.h on the include path."""

from pathlib import Path

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import Outcome, Progress, cpp_folder, header_folder, memory_flags, run_tool
from sandseal_sdk.toolchains.diagnostics import read_diagnostics, undefined_symbols

_FLAGS = ("-O3", "-msimd128", "-mbulk-memory", "-std=gnu17", "-Wall", "-Wextra")
_STACK, _INITIAL = 64 << 10, 1 << 20
_BARE = ("-target", "wasm32-freestanding", "-Wl,--no-entry")
_LIBC = ("-target", "wasm32-wasi", "-mexec-model=reactor")
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
    wasm = work / "module.wasm"
    memory = memory_flags(spec.limits.memory_mib, _STACK, _INITIAL)
    arguments = ["cc", *_FLAGS, *memory, "-I", str(header_folder()), "-o", str(wasm.resolve()), spec.source]
    arguments += [*_LIBC, *_imports(spec), str(cpp_folder() / "wasi.c")] if spec.libc else _BARE
    outcome = run_tool("ziglang", arguments, spec.folder, progress, _FIRST_LIBC)
    diagnostics = read_diagnostics(outcome.text)
    if not outcome.succeeded:
        raise _failure(outcome)
    for warning in diagnostics:
        progress(str(warning))
    return wasm.read_bytes()


def _imports(spec: PluginSpec) -> list[str]:
    return [f"-DSANDSEAL_IMPORTS_{name.upper()}" for name in spec.imports]


def _failure(outcome: Outcome) -> BuildError:
    missing = undefined_symbols(outcome.text)
    errors = [diagnostic for diagnostic in read_diagnostics(outcome.text) if diagnostic.is_error]
    compiler = outcome.text[:8192]
    if errors:
        first, rest = errors[0], len(errors) - 1
        more = f"\n(and {rest} more)" if rest else ""
        hint = _WANTS_LIBC if first.text.endswith("file not found") else None
        return BuildError(f"{first}{more}", hint=hint, file=first.file, line=first.line, compiler=compiler)
    if missing:
        message = f"nothing defines {', '.join(missing)}"
        return BuildError(message, hint=_WANTS_LIBC, symbols=missing, compiler=compiler)
    return BuildError(f"the compiler failed: {compiler.strip()}", compiler=compiler)
