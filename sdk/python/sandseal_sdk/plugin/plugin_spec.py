"""plugin.toml: a stage of bundle.json in TOML, with what it takes to build it (schema sandseal.plugin/1, closed)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sandseal_sdk.errors import PluginFolderInvalid
from sandseal_signing.errors import SandsealError
from sandseal_signing.names import is_model_name
from sandseal_signing.schema import Node
from sandseal_signing.stage import StageSpec, read_stage

FILE = "plugin.toml"
SCHEMA = "sandseal.plugin/1"
LANGUAGES = {
    "python": "plugin.py", "c": "plugin.c", "cpp": "plugin.cpp", "zig": "plugin.zig",
    "assemblyscript": "plugin.ts", "rust": "plugin.rs",
}  # fmt: skip
"""Every language, with what a new plugin's source is called."""
STAGES = ("pre", "post", "logits")
"""What a new plugin can be."""
_POSITIONS = (*STAGES, "step")  # of a pipeline
VOCABULARY = Path("cases") / "vocabulary.bin"
"""What stands in cases for the asset `vocabulary`, which hosts make for logits stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSpec(StageSpec):
    """A plugin's folder: the stage that it is to be, and how to build it.

    Args:
        name: names the wasm file.
        folder: holds plugin.toml, the source, the assets and cases/.
        language: one of LANGUAGES.
        source: the source file, relative to the folder.
        position: one of STAGES, or step.
        libc: C and C++ only: link a C library (`#include <math.h>`, `malloc`).
        parameters: Python only: what a request may set, with the values that stand when it does not.
    """

    name: str
    folder: Path
    language: str
    source: str
    position: str
    libc: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source_text(self) -> str:
        """What the source file holds now."""
        return (self.folder / self.source).read_text(encoding="utf-8")

    @property
    def stage(self) -> StageSpec:
        """The stage alone, as bundle.json describes it."""
        return StageSpec(**{field.name: getattr(self, field.name) for field in fields(StageSpec)})


def read_plugin_spec(folder: Path) -> PluginSpec:
    """Read a plugin folder's plugin.toml.

    Raises:
        PluginFolderInvalid: no such file, not TOML, or not schema sandseal.plugin/1; the message names the place.
    """
    path = folder / FILE
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return _spec(folder, document)
    except FileNotFoundError:
        raise PluginFolderInvalid(f"{folder} is no plugin: it holds no {FILE}") from None
    except (OSError, ValueError, TypeError) as error:  # TypeError: the config holds a date, which JSON has not
        raise PluginFolderInvalid(f"{path}: {error}") from None
    except SandsealError as error:
        raise PluginFolderInvalid(f"{path}: {error.message}", **error.data) from None


def read_assets(spec: PluginSpec) -> dict[str, bytes]:
    """A plugin's assets by name, and the vocabulary that a logits stage's cases bring.

    Raises:
        PluginFolderInvalid: one is not there.
    """
    files = {name: spec.folder / name for name in spec.assets}
    if spec.position == "logits" and (spec.folder / VOCABULARY).is_file():
        files["vocabulary"] = spec.folder / VOCABULARY
    try:
        return {name: path.read_bytes() for name, path in files.items()}
    except OSError as error:
        raise PluginFolderInvalid(
            f"the asset {error.filename} cannot be read: {error.strerror}",
            hint="the plugin's README says how to make it",
        ) from None


def _spec(folder: Path, document: dict[str, Any]) -> PluginSpec:
    if "plugin" in document:
        raise PluginFolderInvalid("plugin: is not a member of this schema")
    root = Node(document | {"plugin": "plugins/built.wasm"}, "", PluginFolderInvalid)  # read_stage asks for one
    root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
    name = root.text("name", valid=is_model_name, rule="lower-case letters, digits, '.', '_' and '-'")
    language = root.text("language", valid=LANGUAGES.__contains__, rule=" or ".join(LANGUAGES))
    libc = root.take("libc", False)
    if type(libc) is not bool or (libc and language not in ("c", "cpp")):
        root.fail("libc", "must be true or false, and is for the languages c and cpp")
    parameters = root.take("parameters", {})
    if not isinstance(parameters, dict) or (parameters and language != "python"):
        root.fail("parameters", "must be a table, and is for language python")
    built = {
        "name": name,
        "folder": folder,
        "language": language,
        "source": root.text("source"),
        "position": root.text("stage", valid=_POSITIONS.__contains__, rule=" or ".join(_POSITIONS)),
        "libc": libc,
        "parameters": parameters,
    }
    stage = read_stage(root, reserved=[])
    given = {field.name: getattr(stage, field.name) for field in fields(stage)} | {"plugin": f"plugins/{name}.wasm"}
    if stage.assets and "asset" not in stage.imports:
        root.fail("assets", 'needs "asset" among the imports')
    if not (folder / built["source"]).is_file():
        root.fail("source", f"there is no file {built['source']!r} in the folder")
    return PluginSpec(**given, **built)
