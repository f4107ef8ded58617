"""A new plugin's folder, written from a template that builds and passes its tests as it stands."""

from pathlib import Path

from sandseal_sdk.errors import FileExists, PluginFolderInvalid
from sandseal_sdk.plugin_spec import LANGUAGES, STAGES
from sandseal_signing.names import is_model_name

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_NAME = "@NAME@"  # stands for the plugin's name in every file
_SUFFIX = ".template"  # on Python sources, which are no modules of this package


def new_plugin(folder: Path, name: str, language: str, stage: str) -> Path:
    """Write a plugin's folder and return it.

    Args:
        folder: created, with what lies above it; may be there already if it is empty.
        name: the plugin's: lower-case letters, digits, '.', '_' and '-'.
        language: python or c.
        stage: pre or post.

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
    template = _TEMPLATES / language / stage
    for source in (_TEMPLATES / "README.md", *sorted(path for path in template.rglob("*") if path.is_file())):
        place = source.relative_to(template) if template in source.parents else Path(source.name)
        target = folder / str(place).removesuffix(_SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text(encoding="utf-8").replace(_NAME, name), encoding="utf-8", newline="\n")
    return folder
