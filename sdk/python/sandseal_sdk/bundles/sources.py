"""Where a bundle to verify lies: a .seal file, a folder, or a host's store, which an entry point opens."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from sandseal_sdk.errors import BundleNotFound, ExtraMissing
from sandseal_signing.bundle import Source
from sandseal_signing.digest import Digest
from sandseal_signing.folder import FolderSource
from sandseal_signing.seal import SealReader
from sandseal_signing.trust import Revoked

STORES = "sandseal.stores"
"""The entry points of packages that keep bundles; each opens a `StoredBundle` from a data folder and a bundle id."""

_NOTHING = Revoked()
_BUNDLE_ID = re.compile(r"[0-9a-f]{64}\Z")


class StoredBundle(Protocol):
    """A bundle in a host's store, read without the host and without changing anything."""

    source: Source
    accepted_at: datetime
    revoked: Revoked


@dataclass(frozen=True, slots=True)
class Place:
    """A bundle's bytes and what is known about where they lie.

    Args:
        kind: `seal`, `folder` or `store`.
        accepted_at: when a host accepted it; None outside of a store.
        revoked: what the host was told to refuse, beside the policy's own list.
        threads: how many files may be read at once.
    """

    kind: str
    source: Source
    accepted_at: datetime | None = None
    revoked: Revoked = _NOTHING
    threads: int = 1


@contextmanager
def open_place(where: str, data: Path, threads: int) -> Iterator[Place]:
    """Open what a user named: a path, else a bundle id in a host's data folder.

    Args:
        where: a .seal file, a folder, or 64 hex digits.
        data: the host's data folder.
        threads: how many files to read at once where that is possible.

    Raises:
        BundleNotFound: there is no such path, or the store has no such bundle.
        ExtraMissing: no installed package keeps a store.
    """
    path = Path(where)
    if path.is_dir():
        yield Place("folder", FolderSource(path), threads=threads)
    elif path.exists():
        with path.open("rb", buffering=0) as file:
            yield Place("seal", SealReader(file))
    elif _BUNDLE_ID.match(where):
        stored = _open_stored(data, Digest(where))
        yield Place("store", stored.source, stored.accepted_at, stored.revoked, threads)
    else:
        raise BundleNotFound(f"there is no file or folder {where!r}, and it is not a bundle id of 64 hex digits")


def _open_stored(data: Path, bundle_id: Digest) -> StoredBundle:
    stores = sorted(entry_points(group=STORES), key=lambda entry: entry.name)
    if not stores:
        raise ExtraMissing("reading a host's store needs the host's packages", hint="pip install 'sandseal[cpu]'")
    open_stored: Any = stores[0].load()
    stored: StoredBundle | None = open_stored(data, bundle_id)
    if stored is None:
        raise BundleNotFound(f"the host's data folder {str(data)!r} has no bundle {bundle_id}")
    return stored
