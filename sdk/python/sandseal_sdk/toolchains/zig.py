"""Zig to wasm: one source file (which may import others), with sandseal.zig as the module "sandseal"."""

from pathlib import Path

from sandseal_sdk.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import Progress, library_folder, memory_bytes, run_tool
from sandseal_sdk.toolchains.diagnostics import build_error, read_diagnostics

# Safe: an index out of range or an overflow is a trap that the trace names, not a wrong answer.
_FLAGS = (
    "-target", "wasm32-freestanding", "-mcpu", "generic+simd128+bulk_memory+nontrapping_fptoint+sign_ext",
    "-O", "ReleaseSafe", "-fno-entry", "-rdynamic",
)  # fmt: skip
_STACK, _INITIAL = 64 << 10, 1 << 20


def compile_zig(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    """Compile a Zig plugin.

    Args:
        spec: the plugin.
        work: a folder for intermediate files.
        progress: gets lines for the author.

    Raises:
        BuildError: the compiler refuses it.
    """
    wasm = (work / "module.wasm").resolve()
    library = library_folder("zig") / "sandseal.zig"
    arguments = ["build-exe", *_FLAGS, "--dep", "sandseal", f"-Mroot={spec.source}", f"-Msandseal={library}"]
    arguments += ["--stack", str(_STACK), f"--initial-memory={memory_bytes(spec.limits.memory_mib, _INITIAL)}"]
    arguments += ["--cache-dir", str((work / "zig").resolve()), f"-femit-bin={wasm}"]
    outcome = run_tool("ziglang", arguments, spec.folder, progress, "the Zig compiler is still at work")
    if not outcome.succeeded:
        raise build_error(read_diagnostics(outcome.text), outcome.text)
    return wasm.read_bytes()
