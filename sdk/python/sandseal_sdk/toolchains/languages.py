"""Every language that a plugin can be written in: what compiles it, and what decides the module's bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.assemblyscript import compile_assemblyscript
from sandseal_sdk.toolchains.c import compile_c, compile_cpp
from sandseal_sdk.toolchains.compiler import Progress, cpp_folder, library_folder, tool_version
from sandseal_sdk.toolchains.python import compile_python
from sandseal_sdk.toolchains.rust import compile_rust, find_rust
from sandseal_sdk.toolchains.zig import compile_zig


@dataclass(frozen=True, slots=True)
class Language:
    """How plugins of one language are built.

    Args:
        compile: a plugin, a folder for intermediate files and a progress function to the module.
        declaration: how a source says that a function is the stage; `{}` stands for its name.
        tools: give the versions of what compiles it.
        folders: hold our own code that goes into it, and lock files.
    """

    compile: Callable[[PluginSpec, Path, Progress], bytes]
    declaration: str
    tools: Sequence[Callable[[], str]]
    folders: Sequence[Path]


def _package(name: str) -> Callable[[], str]:
    return partial(tool_version, name)


def _rust() -> str:
    return find_rust().version


_C, _ZIG = library_folder("c"), _package("ziglang")

LANGUAGES: Mapping[str, Language] = {
    "python": Language(compile_python, "def {}(...):", (_ZIG, _package("pythran")), (_C, cpp_folder())),
    "c": Language(compile_c, "SANDSEAL_STAGE({}) {{ ... }}", (_ZIG,), (_C, cpp_folder())),
    "cpp": Language(
        compile_cpp, "SANDSEAL_STAGE({}) {{ ... }}", (_ZIG,), (_C, library_folder("cpp"), cpp_folder())
    ),
    "zig": Language(
        compile_zig, 'comptime {{ sandseal.stage("{0}", {0}); }}', (_ZIG,), (library_folder("zig"),)
    ),
    "assemblyscript": Language(
        compile_assemblyscript, "export function {}(call: Call): i32 {{ ... }}", (), (library_folder("assemblyscript"),)
    ),
    "rust": Language(compile_rust, "stage!({});", (_rust,), (library_folder("rust"),)),
}  # fmt: skip
