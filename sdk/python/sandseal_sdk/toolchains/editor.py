"""What an editor needs to understand a plugin's source as the build does."""

import json
from pathlib import Path

from sandseal_sdk.errors import ExtraMissing
from sandseal_sdk.plugin.plugin_spec import PluginSpec
from sandseal_sdk.toolchains.c import editor_flags

FILE = ".clangd"


def write_editor_settings(spec: PluginSpec) -> Path | None:
    """Write .clangd into the folder of a C or C++ plugin that has none; the paths in it are this machine's.

    Returns:
        The file, or none where there is nothing to write.
    """
    path = spec.folder / FILE
    if spec.language not in ("c", "cpp") or path.exists():
        return None
    try:
        flags = editor_flags(spec)
    except ExtraMissing:
        return None
    path.write_text(f"CompileFlags:\n  Add: {json.dumps(flags)}\n", encoding="utf-8", newline="\n")
    return path
