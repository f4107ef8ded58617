"""A new plugin's folder, written from a template that builds and passes its tests as it stands."""

from collections.abc import Mapping
from pathlib import Path

from sandseal_sdk.errors import FileExists, PluginFolderInvalid
from sandseal_sdk.plugin.plugin_spec import LANGUAGES, STAGES, read_plugin_spec
from sandseal_sdk.toolchains.editor import write_editor_settings
from sandseal_signing.names import is_model_name

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_SUFFIX = ".template"  # on Python sources, which are no modules of this package


def new_plugin(folder: Path, name: str, language: str, stage: str) -> Path:
    """Write a plugin's folder and return it.

    Args:
        folder: created, with what lies above it; may be there already if it is empty.
        name: the plugin's: lower-case letters, digits, '.', '_' and '-'.
        language: one of LANGUAGES.
        stage: one of STAGES.

    Raises:
        FileExists: the folder holds something.
        PluginFolderInvalid: no such language or stage, or a name that no plugin can have.
    """
    for given, known, what in ((language, LANGUAGES, "language"), (stage, STAGES, "stage")):
        if given not in known:
            raise PluginFolderInvalid(f"there is no {what} {given!r}", hint=f"choose {' or '.join(known)}")
    if not is_model_name(name):
        raise PluginFolderInvalid(f"{name!r} cannot be a plugin's name", hint="use a-z, 0-9, '.', '_' and '-'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExists(f"{folder} is already there", hint="give another folder; nothing is overwritten")
    words = {"@NAME@": name, "@LANGUAGE@": language, "@SOURCE@": LANGUAGES[language]}
    others = set(LANGUAGES.values()) - {LANGUAGES[language]}
    for root in (_TEMPLATES / "both", _TEMPLATES / stage):
        for file in root.rglob("*"):
            place = str(file.relative_to(root)).removesuffix(_SUFFIX)
            if file.is_file() and place not in others:
                _write(folder / place, file.read_text(encoding="utf-8"), words)
    write_editor_settings(read_plugin_spec(folder))
    return folder


def _write(target: Path, text: str, words: Mapping[str, str]) -> None:
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8", newline="\n")
