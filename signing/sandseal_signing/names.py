"""Which file names a bundle may hold, which model names exist, and what is an identifier."""

import re
from collections.abc import Iterable

from sandseal_signing.errors import NameInvalid

MANIFEST = "bundle.json"
SIGNATURES = "signatures"
MODEL_NAME_RULE = "1 to 128 of a-z, 0-9, '.', '_' and '-', the first a letter or digit"

_PART = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_MODEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}\Z")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)", re.IGNORECASE)
_MAX_NAME, _MAX_LEVELS = 255, 8
_USTAR_PREFIX, _USTAR_NAME = 155, 100


def is_model_name(name: str) -> bool:
    """Whether `name` can be a bundle's name."""
    return _MODEL.match(name) is not None


def is_identifier(name: str) -> bool:
    """Whether `name` can be a function's, or a free axis's."""
    return _IDENTIFIER.match(name) is not None


def split_ustar(name: str) -> tuple[str, str] | None:
    """`name` as ustar's (prefix, name) fields, or None if no `/` splits it into 155 + 100 bytes."""
    if len(name) <= _USTAR_NAME:
        return "", name
    at = name.find("/", len(name) - _USTAR_NAME - 1)
    return (name[:at], name[at + 1 :]) if 0 < at <= _USTAR_PREFIX else None


def check_name(name: str) -> str:
    """Return `name` if a bundle may hold a signed file of this name.

    Raises:
        NameInvalid: with the rule that it breaks (signing/README.md, "Names").
    """
    parts = name.split("/")
    why = None
    if not all(_PART.match(part) for part in parts):
        why = "has a part that is empty, over 100 bytes, or not made of [A-Za-z0-9._-]"
    elif any(part in (".", "..") for part in parts):
        why = "has a part '.' or '..'"
    elif any(part.endswith(".") or _DEVICE.match(part) for part in parts):
        why = "has a part that ends with '.' or is a device name (CON, NUL, ...), which Windows cannot store"
    elif len(parts) > _MAX_LEVELS or len(name) > _MAX_NAME or split_ustar(name) is None:
        why = f"is longer than {_MAX_NAME} bytes or {_MAX_LEVELS} levels, or does not split into 155 + 100 bytes"
    elif parts[0].lower() == SIGNATURES:
        why = "lies under signatures/, which is for signatures"
    elif name.lower() == "model.sig" or parts[0].lower().startswith(".git"):
        why = "is one that model signing leaves out of what it signs"
    if why:
        raise NameInvalid(f"file name {name[:300]!r} {why}", name=name[:300])
    return name


def check_names(names: Iterable[str]) -> None:
    """Check every name, and that they can live together on any file system.

    Raises:
        NameInvalid: one name is bad or stands twice, two paths differ only in case, or a file is another's folder.
    """
    files: set[str] = set()
    spelled: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        parts = check_name(name).split("/")
        if name in files:
            raise NameInvalid(f"file name {name!r} stands twice", name=name)
        files.add(name)
        for path in ("/".join(parts[:i]) for i in range(1, len(parts) + 1)):
            twin = spelled.setdefault(path.lower(), path)
            if twin != path:
                raise NameInvalid(f"{twin!r} and {path!r} are the same path on some systems", name=name)
            if path != name:
                folders[path] = name
    for folder in sorted(files & folders.keys()):
        raise NameInvalid(f"file name {folder!r} is also the folder of {folders[folder]!r}", name=folder)
