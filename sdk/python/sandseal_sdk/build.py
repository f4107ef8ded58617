"""Compile a plugin's folder to wasm, unless it already is."""

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin_spec import PluginSpec, read_plugin_spec
from sandseal_sdk.toolchains.c import compile_c
from sandseal_sdk.toolchains.compiler import Progress, cpp_folder, header_folder, tool_version
from sandseal_sdk.toolchains.python import compile_python
from sandseal_sdk.wasm_module import read_surface, strip_debug

FOLDER = "build"
_COMPILERS = {"c": compile_c, "python": compile_python}
_TOOLS = {"c": ("ziglang",), "python": ("ziglang", "pythran")}
_SOURCES = ("*.py", "*.c", "*.h", "plugin.toml")


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A built plugin.

    Args:
        wasm: the module's path.
        spec: what was built.
        imports: host functions that the module calls, without the module name `sandseal`.
        seconds: how long it took.
        cached: nothing had changed, so nothing was compiled.
    """

    wasm: Path
    spec: PluginSpec
    imports: tuple[str, ...]
    seconds: float
    cached: bool


def build_plugin(folder: Path, out: Path | None = None, progress: Progress = lambda line: None) -> BuildResult:
    """Compile a plugin; the same source and tools give the same bytes.

    Args:
        folder: holds plugin.toml and the source; `build/` in it is made for what the compiler writes.
        out: where the module goes; build/NAME.wasm in the folder when absent.
        progress: gets lines for the author.

    Raises:
        PluginFolderInvalid: plugin.toml does not describe a plugin.
        BuildError: the compiler refuses the source, or the module is not what plugin.toml says.
        ExtraMissing: the toolchain is not installed.
    """
    began = time.monotonic()
    spec = read_plugin_spec(folder)
    work = folder / FOLDER / "work"
    work.mkdir(parents=True, exist_ok=True)
    built, stamp = folder / FOLDER / f"{spec.name}.wasm", work / "key"
    key = _key(spec)
    cached = built.is_file() and stamp.is_file() and stamp.read_text(encoding="ascii") == key
    if not cached:
        stamp.unlink(missing_ok=True)
        built.write_bytes(_compile(spec, work, progress))
        stamp.write_text(key, encoding="ascii")
    wasm = built.read_bytes()
    if out is not None and out != built:
        out.write_bytes(wasm)
    imports = tuple(name.removeprefix("sandseal.") for name in read_surface(wasm).imports)
    return BuildResult(out or built, spec, imports, time.monotonic() - began, cached)


def _compile(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    progress(f"compiling {spec.source} to WebAssembly")
    wasm = strip_debug(_COMPILERS[spec.language](spec, work, progress))
    _check(spec, wasm)
    return wasm


def _check(spec: PluginSpec, wasm: bytes) -> None:
    """Find out here what the host would refuse at upload."""
    surface = read_surface(wasm)
    granted = {f"sandseal.{name}" for name in spec.imports}
    for name in surface.imports:
        if name not in granted:
            raise BuildError(
                f"the module imports {name}, which plugin.toml does not ask for",
                hint=f'add "{name.removeprefix("sandseal.")}" to `imports` in plugin.toml'
                if name.startswith("sandseal.")
                else "do without the function that needs it; sdk/README.md lists what a plugin can do",
                module=name,
            )
    if spec.function not in surface.exports:
        raise BuildError(
            f"{spec.source} does not define the stage {spec.function!r}",
            hint=f"write it as SANDSEAL_STAGE({spec.function}) {{ ... }}, or correct `function` in plugin.toml",
            function=spec.function,
        )


def _key(spec: PluginSpec) -> str:
    """A digest over everything that decides the module's bytes."""
    digest = hashlib.sha256()
    for tool in ("sandseal", *_TOOLS[spec.language]):
        digest.update(f"{tool} {tool_version(tool)}\n".encode())
    for root, patterns in (
        (spec.folder, _SOURCES),
        (header_folder(), ("*.h",)),
        (cpp_folder(), ("*.hpp", "*.h", "*.c")),
    ):
        for path in sorted({path for pattern in patterns for path in root.rglob(pattern)}):
            if FOLDER not in path.relative_to(root).parts:
                digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()
