"""Compile a plugin's folder to wasm, unless it already is."""

import hashlib
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin.plugin_spec import PluginSpec, read_plugin_spec
from sandseal_sdk.plugin.preinit import PAGES_PER_MIB, preinitialise
from sandseal_sdk.plugin.sandbox import initialise
from sandseal_sdk.plugin.wasm_module import read_surface, strip_debug
from sandseal_sdk.toolchains.compiler import Progress, tool_version
from sandseal_sdk.toolchains.editor import write_editor_settings
from sandseal_sdk.toolchains.languages import LANGUAGES, Language
from sandseal_signing.errors import SandsealError

FOLDER, WORK = "build", "work"
_REQUIRED = ("memory", "sandseal_abi", "sandseal_alloc")
_NO_SOURCES = ("cases", "README.md", "__pycache__", "node_modules")  # of a plugin's folder; all else may be compiled in


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

    @property
    def unstripped(self) -> Path:
        """The module as the compiler wrote it, with DWARF."""
        return self.spec.folder / FOLDER / WORK / "module.wasm"


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
    work = folder / FOLDER / WORK
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


def is_source(path: Path) -> bool:
    """Whether a file, relative to its plugin's folder, may decide the module's bytes."""
    hidden = any(part.startswith(".") or part in (FOLDER, *_NO_SOURCES) for part in path.parts)
    return not hidden and path.suffix != ".wasm"


def _compile(spec: PluginSpec, work: Path, progress: Progress) -> bytes:
    progress(f"compiling {spec.source} to WebAssembly")
    write_editor_settings(spec)
    language = LANGUAGES[spec.language]
    wasm = strip_debug(language.compile(spec, work, progress))
    _check(spec, language, wasm)
    return _initialised(spec, wasm)


def _initialised(spec: PluginSpec, wasm: bytes) -> bytes:
    """The module after its initialisation, which then costs an instance nothing."""
    try:
        return preinitialise(wasm, partial(initialise, spec=spec), spec.limits.memory_mib * PAGES_PER_MIB)
    except BuildError:
        raise
    except SandsealError as error:
        raise BuildError(
            f"what runs before the first call must run at build time too, and does not: {error.message}",
            hint="tables and constants can be made then; log, clock, random numbers and assets belong into the stage",
            **error.data,
        ) from None


def _check(spec: PluginSpec, language: Language, wasm: bytes) -> None:
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
            hint=f"write {language.declaration.format(spec.function)}, or correct `function` in plugin.toml",
            function=spec.function,
        )
    for name in _REQUIRED:
        if name not in surface.exports:
            raise BuildError(
                f"the module does not export {name}",
                hint="use the library that `sandseal new` shows; it defines what the host calls",
                function=name,
            )
    if surface.starts:
        raise BuildError(
            "the module has a start section, which no host runs",
            hint="let the compiler export it as _initialize; `sandseal build` runs that and bakes in what it leaves",
        )


def _key(spec: PluginSpec) -> str:
    """A digest over everything that decides the module's bytes."""
    digest, language = hashlib.sha256(), LANGUAGES[spec.language]
    for version in (tool_version("sandseal"), *(tool() for tool in language.tools)):
        digest.update(f"{version}\n".encode())
    for root in (spec.folder, *language.folders):
        for path in sorted(path for path in root.rglob("*") if path.is_file() and is_source(path.relative_to(root))):
            digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
