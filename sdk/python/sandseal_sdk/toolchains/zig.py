"""Zig to wasm: one source file (which may import others), with sandseal.zig as the module "sandseal"."""

from pathlib import Path

from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import STACK, Progress, library_folder, memory_bytes, run_tool
from sandseal_sdk.toolchains.diagnostics import read_diagnostics, settle

# Safe: an index out of range or an overflow is a trap that the trace names, not a wrong answer.
_FLAGS = (
    "-target", "wasm32-freestanding", "-mcpu", "generic+simd128+bulk_memory+nontrapping_fptoint+sign_ext",
    "-O", "ReleaseSafe", "-fno-entry", "-rdynamic",
)  # fmt: skip


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
    arguments += ["--stack", str(STACK), f"--initial-memory={memory_bytes(spec.limits.memory_mib)}"]
    arguments += ["--cache-dir", str((work / "zig").resolve()), f"-femit-bin={wasm}"]
    outcome = run_tool("ziglang", arguments, spec.folder, progress, "the Zig compiler is still at work")
    settle(outcome, read_diagnostics(outcome.text), progress)
    return wasm.read_bytes()
