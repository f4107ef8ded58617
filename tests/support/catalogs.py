"""Catalogs that are made by copying one: running every migration takes many times as long."""

import tempfile
from functools import cache
from pathlib import Path

from sandseal_host.registry.catalog import Catalog


def open_catalog(file: Path) -> Catalog:
    """The catalog in this file; a new one where there is none, of the same identity as all that are made here."""
    if not file.exists():
        file.write_bytes(_empty())
    return Catalog(f"sqlite:///{file}")


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "catalog.sqlite")
        Catalog(f"sqlite:///{file}").close()
        return file.read_bytes()
