"""A plugin's Python file imported as it stands: the top level of its modules runs here, once, at build time."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sandseal_sdk.errors import PluginFolderInvalid


def load_plugin(folder: Path, source: str) -> ModuleType:
    """Import a plugin's source, with its folder as the working folder and first on the path.

    The modules of its folder are forgotten again, so that two plugins may both have a `words.py`.

    Raises:
        Exception: whatever the module raises.
    """
    path = (folder / source).resolve()
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None or found.loader is None:
        raise PluginFolderInvalid(f"{path} is no Python file")
    module = importlib.util.module_from_spec(found)
    with _alone(folder.resolve()):
        sys.modules[path.stem] = module
        found.loader.exec_module(module)
    return module


def own_namespaces(folder: Path, module: ModuleType) -> Iterator[dict[str, Any]]:
    """The names of a module of the plugin, and of those of its folder that it knows, directly or not."""
    seen, left = set(), [vars(module)]
    while left:
        names = left.pop()
        if id(names) in seen or not is_of(folder, names.get("__file__")):
            continue
        seen.add(id(names))
        yield names
        left += [vars(value) for value in names.values() if isinstance(value, ModuleType)]
        left += [value.__globals__ for value in names.values() if isinstance(value, FunctionType)]


def is_of(folder: Path, file: str | None) -> bool:
    """Whether a source file is one of a plugin's own."""
    return file is not None and Path(file).resolve().is_relative_to(folder.resolve())


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A place where imports and files are looked for in `folder`, which leaves no module behind."""
    before = dict(sys.modules)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = writes
        for name, module in list(sys.modules.items()):
            if before.get(name) is not module and is_of(folder, getattr(module, "__file__", None)):
                sys.modules.pop(name)
                if name in before:
                    sys.modules[name] = before[name]
