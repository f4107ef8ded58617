"""Load views: the large weights of one load, so that what was hashed is what ONNX Runtime maps by path.

A file that is mapped can be changed after it was hashed, and a session that was built already then answers
differently. So each is a hard link in a private folder of this load, held open, under a read lease that was taken
before the file was hashed, through that same descriptor.
"""

import logging
import os
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from io import FileIO
from pathlib import Path
from typing import Literal, Self

from sandseal_host.errors import StoreError, Tampered
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.lease import Lease, LeaseRefused
from sandseal_signing.bundle import Bundle, InMemory, Source
from sandseal_signing.digest import Digest, read_chunks
from sandseal_signing.statement import Resource

LeaseRule = Literal["require", "warn"]
"""What happens where no lease is granted: the load is refused, or goes on with a warning."""

_log = logging.getLogger(__name__)


class HeldFile:
    """One file of a view, open and, where the system grants it, under a lease.

    Args:
        path: the link to it.
    """

    def __init__(self, resource: Resource, path: Path) -> None:
        self.resource = resource
        self.file = FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        self._lease: Lease | None = None

    @property
    def broken(self) -> bool:
        """Whether somebody opened the file for writing."""
        return self._lease is not None and self._lease.broken

    def lease(self, rule: LeaseRule) -> None:
        """Take the lease.

        Raises:
            StoreError: the rule requires one, and none is granted.
        """
        try:
            self._lease = Lease(self.file)
        except LeaseRefused as refused:
            message = f"no lease on {self.resource.name!r} (blob {self.resource.digest}): {refused}"
            if rule == "require":
                raise StoreError(
                    message,
                    hint="put the data folder on a local Linux file system whose files the host owns, "
                    "raise SANDSEAL_LOAD_BYTES_MIB, or accept the risk with SANDSEAL_LEASE=warn",
                ) from refused
            _log.warning("%s; nobody would notice a change while it serves", message)

    def close(self) -> None:
        """Release the lease."""
        if self._lease is not None:
            self._lease.release()
        self.file.close()


class LoadView:
    """The large files of one load; made by `LoadViews`.

    Args:
        folder: holds them under their signed names.
        bundle_id: of the bundle that is loaded.
    """

    def __init__(self, views: "LoadViews", folder: Path, bundle_id: Digest) -> None:
        self._views = views
        self.folder = folder
        self.bundle_id = bundle_id
        self.held: list[HeldFile] = []
        self._noted: tuple[int, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The signed names of its files."""
        return frozenset(held.resource.name for held in self.held)

    def fill(self, store: BlobStore, weights: Sequence[Resource]) -> None:
        """Link the files and open them."""
        self.folder.mkdir(mode=0o700)
        for resource in weights:
            path = self.folder / resource.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            store.link(resource.digest, path)
            self.held.append(HeldFile(resource, path))
        self._noted = self._state()

    def read(self, name: str) -> Iterator[memoryview]:
        """A file's content through the descriptor that is under the lease; chunks are valid until the next one."""
        file = next(held.file for held in self.held if held.resource.name == name)
        file.seek(0)
        yield from read_chunks(file)

    def check(self) -> None:
        """See that nothing happened to the files since they were linked; for the moment when the model is ready.

        Raises:
            Tampered: a file was opened for writing, replaced or otherwise changed.
        """
        name = self.broken()
        if name is not None:
            raise Tampered(f"tampered: {name!r} was opened for writing while it was loaded")
        if self._state() != self._noted:
            raise Tampered(f"tampered: one of {', '.join(sorted(self.names))} was replaced or changed during its load")

    def broken(self) -> str | None:
        """The name of a file that somebody opened for writing; None while there is none."""
        return next((held.resource.name for held in list(self.held) if held.broken), None)

    def close(self) -> None:
        """Remove the folder, then release the leases: the blobs are free to be written to; harmless when closed."""
        self._views.remove(self)

    def _state(self) -> tuple[int, ...]:
        """What shows whether a link was replaced, or a file changed.

        A blob's own change time would not do: other loads and uploads of the same blob link and unlink it. These
        folders' entries are nobody else's, and no link in them can be exchanged, and exchanged back, without a trace.
        """
        state: list[int] = []
        for name in sorted(self.names):
            path = self.folder / name
            file = path.lstat()
            state += (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns)
            for folder in path.parents[: name.count("/") + 1]:
                at = folder.lstat()
                state += (at.st_dev, at.st_ino, at.st_ctime_ns)
        return tuple(state)


@dataclass(frozen=True, slots=True)
class Bound(Bundle):
    """A verified bundle as it is loaded.

    Args:
        view: holds the weights that are not in `files`; None where all are.
    """

    view: LoadView | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def of(cls, bundle: Bundle, view: LoadView | None) -> Self:
        """The bundle, bound to this view."""
        return cls(**{field.name: getattr(bundle, field.name) for field in fields(bundle)}, view=view)

    @property
    def folder(self) -> Path | None:
        """Where the weights lie that are not in `files`."""
        return self.view.folder if self.view else None

    def check(self) -> None:
        """See `LoadView.check`; bytes cannot change."""
        if self.view is not None:
            self.view.check()

    def close(self) -> None:
        """See `LoadView.close`."""
        if self.view is not None:
            self.view.close()


class LoadViews:
    """Makes the views of all loads, and knows those that are open; thread-safe.

    Args:
        store: where the blobs are.
        root: the views' folder, on the store's file system; what an earlier process left there is deleted.
        rule: see `LeaseRule`.
        bytes_limit: a bundle with up to so many bytes of weights needs no view.

    Raises:
        StoreError: the folder cannot be used; from `open` too.
    """

    def __init__(self, store: BlobStore, root: Path, *, rule: LeaseRule = "require", bytes_limit: int) -> None:
        self._store, self._root, self._rule, self._bytes_limit = store, root, rule, bytes_limit
        self._guard = threading.Lock()
        self._open: set[LoadView] = set()
        with _translated(root):
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(mode=0o700)

    def open(self, bundle_id: Digest, weights: Sequence[Resource]) -> LoadView | None:
        """The view of these weights, to be hashed now; None where they are few enough to be loaded as bytes.

        Raises:
            FileMissing: the store lacks one.
            StoreError: a link or lease that is required cannot be had.
        """
        if sum(resource.size for resource in weights) <= self._bytes_limit:
            return None
        view = LoadView(self, self._root / secrets.token_hex(8), bundle_id)
        with self._guard:
            self._open.add(view)
        try:
            with _translated(view.folder):
                view.fill(self._store, weights)
            for held in view.held:
                held.lease(self._rule)
        except BaseException:
            view.close()
            raise
        return view

    def remove(self, view: LoadView) -> None:
        """See `LoadView.close`."""
        with self._guard:
            self._open.discard(view)
            shutil.rmtree(view.folder, ignore_errors=True)
            while view.held:
                view.held.pop().close()

    def broken(self) -> Mapping[Digest, str]:
        """The bundles whose files somebody opened for writing, each with one such file's name."""
        with self._guard:
            found = {view.bundle_id: view.broken() for view in self._open}
        return {bundle_id: name for bundle_id, name in found.items() if name is not None}

    def bound(self, bundle_id: Digest) -> bool:
        """Whether a load of the bundle has a view."""
        with self._guard:
            return any(view.bundle_id == bundle_id for view in self._open)


class Binding:
    """Reads and keeps a stored bundle for a load: a `Source` and a `Sink` for `open_bundle`.

    Args:
        source: where everything but the view's files comes from.
        view: has the others.
    """

    def __init__(self, source: Source, view: LoadView) -> None:
        self._source, self._view, self._large = source, view, view.names

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name."""
        return self._source.signatures()

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """A file's content, through the view's descriptor where it has the file."""
        return self._view.read(resource.name) if resource.name in self._large else self._source.read(resource)

    def finish(self) -> None:
        """See the source's."""
        self._source.finish()

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> bytes | None:
        """Keep the bytes of what the view does not have."""
        if resource.name not in self._large:
            return InMemory().write(resource, chunks)
        for _ in chunks:
            pass
        return None


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot use {folder} for the weights of a load: {error.strerror}") from error
