"""The first-party plugins by name: `sandseal:image-classification` for a stage is plugins/image-classification-STAGE.

An installed package carries them built, sources beside the wasm. In the repository they are built when first asked for.
"""

from pathlib import Path

from sandseal_sdk.build import FOLDER, build_plugin
from sandseal_sdk.errors import PluginFolderInvalid
from sandseal_sdk.plugin.plugin_spec import FILE, PluginSpec, read_plugin_spec
from sandseal_sdk.toolchains.compiler import Progress

PREFIX = "sandseal:"
_PACKAGE = Path(__file__).resolve().parent
_CARRIED, _REPOSITORY = _PACKAGE / "plugins", _PACKAGE.parents[2] / "plugins"


def ready_plugin(given: str, stage: str, progress: Progress = lambda line: None) -> tuple[PluginSpec, Path]:
    """A plugin's spec and its wasm module: a first-party one, or the author's own, built if needed.

    Args:
        given: `sandseal:NAME`, or a plugin's folder.
        stage: pre or post.
        progress: gets lines for the user while something is built.

    Raises:
        PluginFolderInvalid: there is no such plugin, or it is for the other stage.
        BuildError, ExtraMissing: as `build_plugin` has it.
    """
    folder = _folder(given, stage) if given.startswith(PREFIX) else Path(given)
    spec = read_plugin_spec(folder)
    if spec.position != stage:
        raise PluginFolderInvalid(
            f"{given} is a {spec.position} plugin", hint=f"give it as --{spec.position}", plugin=spec.name
        )
    carried = folder / FOLDER / f"{spec.name}.wasm"
    if _CARRIED in folder.parents and carried.is_file():
        return spec, carried
    return spec, build_plugin(folder, progress=progress).wasm


def names(stage: str) -> list[str]:
    """What `sandseal:` may be followed by for a stage."""
    root = _CARRIED if _CARRIED.is_dir() else _REPOSITORY
    return sorted(path.parent.name.removesuffix(f"-{stage}") for path in root.glob(f"*-{stage}/{FILE}"))


def _folder(given: str, stage: str) -> Path:
    name = given.removeprefix(PREFIX)
    if name not in names(stage):
        known = ", ".join(PREFIX + other for other in names(stage))
        raise PluginFolderInvalid(f"there is no first-party {stage} plugin {given}", hint=f"there are: {known}")
    return (_CARRIED if _CARRIED.is_dir() else _REPOSITORY) / f"{name}-{stage}"
