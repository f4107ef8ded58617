"""AssemblyScript to wasm: its compiler from npm, pinned with digests, and sandseal.ts as the library "sandseal"."""

import re
from collections.abc import Sequence
from pathlib import Path

from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.compiler import Progress, library_folder, memory_bytes, run_command
from sandseal_sdk.toolchains.diagnostics import Diagnostic, settle
from sandseal_sdk.toolchains.node import install_packages, node_command

_FLAGS = (
    "--optimizeLevel", "3", "--enable", "simd", "--runtime", "stub", "--exportStart", "_initialize",
    "--use", "abort=~lib/sandseal/onAbort", "--debug", "--noColors",
)  # fmt: skip
_HINT = "the compiler needs Node.js 20 or newer: `node --version`"
_PAGE = 1 << 16
# The library's own exports, which a module of the author's need not repeat.
_EXPORTS = 'export { sandseal_abi, sandseal_alloc, sandseal_reset } from "sandseal";\n'
# `ERROR TS2304: text`, source lines that start with a bar, `   └─ in file(line,column)`.
_MESSAGE = re.compile(
    r"^(?P<kind>ERROR|WARNING) \w+: (?P<text>.*)\n(?P<excerpt>(?:.*\n)*?)"
    r" *└─ in (?P<file>.+)\((?P<line>\d+),(?P<column>\d+)\)$",
    re.MULTILINE,
)


def compile_assemblyscript(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    """Compile an AssemblyScript plugin.

    Args:
        spec: the plugin.
        work: a folder for intermediate files.
        progress: gets lines for the author, warnings of the compiler included.

    Raises:
        BuildError: the compiler refuses it, or cannot be fetched.
        ExtraMissing: there is no Node.js.
    """
    library = library_folder("assemblyscript")
    compiler = install_packages(library, progress) / "node_modules" / "assemblyscript" / "bin" / "asc.js"
    exports, wasm = work / "exports.ts", work / "module.wasm"
    exports.write_text(_EXPORTS, encoding="utf-8")
    pages = memory_bytes(spec.limits.memory_mib) // _PAGE
    arguments = [spec.source, exports.relative_to(spec.folder).as_posix(), "--lib", str(library), *_FLAGS]
    arguments += ["--initialMemory", str(pages), "--outFile", wasm.relative_to(spec.folder).as_posix()]
    arguments += [f"--use=SANDSEAL_IMPORTS_{name.upper()}=1" for name in spec.imports]
    command = [*node_command(), str(compiler), *arguments]
    outcome = run_command(command, spec.folder, progress, "the AssemblyScript compiler is still at work")
    diagnostics = read_messages(outcome.text)
    settle(outcome, diagnostics, progress, None if diagnostics else _HINT)
    return wasm.read_bytes()


def read_messages(stderr: str) -> Sequence[Diagnostic]:
    """The messages in the compiler's output, in order."""
    return [
        Diagnostic(
            match["kind"].lower(), match["file"], int(match["line"]), int(match["column"]), match["text"],
            match["excerpt"].removeprefix("   :\n").rstrip(),
        )
        for match in _MESSAGE.finditer(stderr)
    ]  # fmt: skip
