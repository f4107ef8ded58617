"""The blob store: file contents by SHA-256, each written once, never changed, gone when nobody uses it."""

import errno
import fcntl
import os
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Self

from sandseal_host.errors import StoreError
from sandseal_host.registry.files import replace_private, sync_folder
from sandseal_signing.bundle import Discard
from sandseal_signing.digest import CHUNK, Digest
from sandseal_signing.errors import FileMissing, FormatError
from sandseal_signing.statement import Resource

Unused = Callable[[Collection[Digest]], Collection[Digest]]
"""Those of the blobs that no accepted bundle uses; the catalog's answer."""


@dataclass(frozen=True, slots=True)
class BlobStatistics:
    """How many blobs the store holds, and their size together in bytes."""

    blobs: int
    bytes: int


class BlobStore:
    """Blobs as `sha256/ab/<hex>`, 0444 in 0700 folders; visible only when complete, hashed and on disk.

    One process has the folder at a time. What is being written lies in `incoming/`, which is emptied at the start.

    Args:
        root: the store's own folder; made when absent.
        reserve: bytes of its disk that no blob gets.

    Raises:
        StoreError: the folder cannot be used, or another process uses it.
    """

    def __init__(self, root: Path, reserve: int = 0) -> None:
        self._root, self._reserve = root, reserve
        self._blobs = root / "sha256"
        self._incoming = root / "incoming"
        self._guard = threading.Lock()
        self._pins: Counter[Digest] = Counter()
        with self._translated("open the blob store"):
            for folder in (root, self._incoming, self._blobs):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock: int | None = self._take_lock()
            # All folders from the start: later only the rename into one of them needs to be made durable.
            for first in range(256):
                (self._blobs / f"{first:02x}").mkdir(mode=0o700, exist_ok=True)
            for folder in (self._blobs, root):
                sync_folder(folder)
            for left in self._incoming.iterdir():
                left.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the folder."""
        with self._guard:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def claim(self, catalog: str) -> None:
        """Tie the store to the catalog of this identity, for good.

        A sweep deletes what the catalog does not list, so another catalog would empty the store.

        Raises:
            StoreError: the store belongs to another catalog.
        """
        self._require_open()
        mark = self._root / "catalog"
        with self._translated("tie the blob store to its catalog"):
            owner = mark.read_text() if mark.exists() else None
            if owner is None:
                replace_private(mark, catalog.encode())
        if owner not in (None, catalog):
            raise StoreError(
                f"the blob store {self._root} belongs to catalog {owner}, not to {catalog}",
                hint="use the catalog that this data folder was made with, or an empty data folder",
            )

    def has(self, digest: Digest) -> bool:
        """Whether the blob is here."""
        return self._path(digest).exists()

    def open(self, digest: Digest) -> FileIO:
        """The blob's content, unbuffered; whoever reads it verifies it.

        Raises:
            FileMissing: the store has no such blob.
            StoreError: it has, but cannot read it.
        """
        self._require_open()
        try:
            return FileIO(os.open(self._path(digest), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        except FileNotFoundError:
            raise _missing(digest) from None
        except OSError as error:
            raise self._error(error, f"read blob {digest}") from error

    def link(self, digest: Digest, target: Path) -> None:
        """Make a hard link to the blob; what is written to one is written to both.

        Raises:
            FileMissing: the store has no such blob.
            StoreError: the target is on another file system, or cannot be made.
        """
        self._require_open()
        try:
            os.link(self._path(digest), target, follow_symlinks=False)
        except FileNotFoundError:
            raise _missing(digest) from None
        except OSError as error:
            raise self._error(error, f"link blob {digest}") from error

    def written(self) -> dict[Digest, float]:
        """The blobs that are here, and when each was hashed and written, in seconds since the epoch."""
        self._require_open()
        with self._translated("list blobs"):
            found = {}
            for digest in self._digests():
                with suppress(FileNotFoundError):  # swept meanwhile
                    found[digest] = self._path(digest).stat().st_mtime
            return found

    def deposit(self, unused: Unused, *, rewrite: bool = False) -> "Deposit":
        """A sink for one upload; what it brought and nobody uses goes when the `with` block ends.

        Args:
            unused: asked at the end of the block.
            rewrite: write blobs that are here already once more, which repairs damaged ones.
        """
        self._require_open()
        return Deposit(self, unused, rewrite=rewrite)

    def sweep(self, unused: Unused, among: Iterable[Digest] | None = None) -> None:
        """Delete the blobs that are neither used nor in an upload's hands.

        Args:
            among: the candidates; every blob of the store when absent.
        """
        self._require_open()
        # Under the guard no upload can pin a blob between the catalog's answer and the deletion.
        with self._guard, self._translated("delete blobs"):
            candidates = frozenset(self._digests() if among is None else among)
            for digest in unused(candidates - self._pins.keys()):
                self._path(digest).unlink(missing_ok=True)

    def statistics(self) -> BlobStatistics:
        """What the store holds now, counted on disk."""
        self._require_open()
        with self._translated("count blobs"):
            sizes = [self._path(digest).stat().st_size for digest in self._digests()]
        return BlobStatistics(len(sizes), sum(sizes))

    def pin(self, digest: Digest) -> None:
        """Keep a blob from being swept, here already or not."""
        with self._guard:
            self._pins[digest] += 1

    def unpin(self, digests: Iterable[Digest]) -> None:
        """Undo one `pin` for each."""
        with self._guard:
            self._pins -= Counter(digests)

    def put(self, resource: Resource, chunks: Iterator[memoryview]) -> None:
        """Write a blob; nothing of it stays unless the chunks end without an error.

        Args:
            chunks: content that is compared with the resource's size and digest after its last chunk.

        Raises:
            StoreError: no room, with the figures; or the disk fails.
        """
        self._require_room(resource)
        part = self._incoming / secrets.token_hex(8)
        try:
            self._write(part, resource, chunks)
            with self._translated(f"keep {resource.name!r}"):
                self._keep(part, resource.digest)
        finally:
            part.unlink(missing_ok=True)

    def adopt(self, digest: Digest, file: Path) -> None:
        """Make a file that holds a blob's content the blob, by a hard link; whoever calls has hashed it.

        Args:
            file: on the store's own file system; nobody writes to it any more.

        Raises:
            StoreError: the disk fails.
        """
        part = self._incoming / secrets.token_hex(8)
        try:
            with self._translated(f"keep blob {digest}"):
                os.link(file, part, follow_symlinks=False)
                with part.open("rb") as content:
                    os.fchmod(content.fileno(), 0o444)
                    os.fsync(content.fileno())
                self._keep(part, digest)
        finally:
            part.unlink(missing_ok=True)

    def _keep(self, part: Path, digest: Digest) -> None:
        target = self._path(digest)
        part.replace(target)
        sync_folder(target.parent)

    def _write(self, part: Path, resource: Resource, chunks: Iterator[memoryview]) -> None:
        doing = f"write {resource.name!r}"
        with self._translated(doing):
            file = part.open("xb", buffering=0)

        def append(chunk: memoryview | bytes) -> None:
            with self._translated(doing):  # not around the stream: what that raises is not the disk's fault
                left = memoryview(chunk)
                while left:
                    left = left[file.write(left) :]

        with file:
            if resource.size > CHUNK:
                _write_behind(append, chunks)
            else:
                for chunk in chunks:
                    append(chunk)
            with self._translated(doing):
                os.fchmod(file.fileno(), 0o444)
                os.fsync(file.fileno())

    def _require_room(self, resource: Resource) -> None:
        with self._translated("ask for free space"):
            free = max(shutil.disk_usage(self._root).free - self._reserve, 0)
        if resource.size > free:
            raise StoreError(
                f"{resource.name!r} needs {resource.size} bytes, the disk of {self._root} has {free} to give",
                needed=resource.size,
                free=free,
            )

    def _require_open(self) -> None:
        if self._lock is None:
            raise StoreError(f"the blob store {self._root} is closed", hint="open it again")

    def _take_lock(self) -> int:
        lock = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StoreError(
                f"another process uses the blob store {self._root}",
                hint="stop the other host, or give this one a data folder of its own",
            ) from None
        return lock

    def _path(self, digest: Digest) -> Path:
        return self._blobs / digest.hex[:2] / digest.hex

    def _digests(self) -> Iterator[Digest]:
        for path in self._blobs.glob("*/*"):
            try:
                yield Digest(path.name)
            except FormatError:  # not ours, so not ours to count or delete
                continue

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(error, doing) from error

    def _error(self, error: OSError, doing: str) -> StoreError:
        message = f"cannot {doing} in {self._root}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(self._root).free
            return StoreError(f"{message} ({free} bytes free)", free=free)
        return StoreError(message)


class Deposit:
    """One upload's hand in the store (a `Sink`): its blobs cannot be swept until the `with` block ends."""

    def __init__(self, store: BlobStore, unused: Unused, *, rewrite: bool) -> None:
        self._store = store
        self._unused = unused
        self._rewrite = rewrite
        self._pinned: list[Digest] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.unpin(self._pinned)
        self._store.sweep(self._unused, self._pinned)

    def hold(self, digests: Iterable[Digest]) -> None:
        """Keep blobs that are here already from being swept until the block ends."""
        for digest in digests:
            self._store.pin(digest)
            self._pinned.append(digest)

    def adopt(self, digest: Digest, file: Path) -> None:
        """Make a hashed file the blob; see `BlobStore.adopt`."""
        self.hold((digest,))
        self._store.adopt(digest, file)

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> None:
        """Keep the content under its digest; content that is here already is only checked.

        Raises:
            StoreError: no room, or the disk fails.
        """
        self.hold((resource.digest,))
        if self._rewrite or not self._store.has(resource.digest):
            self._store.put(resource, chunks)
        else:
            Discard().write(resource, chunks)


def _write_behind(append: Callable[[bytes], None], chunks: Iterable[memoryview]) -> None:
    """Write each chunk while the next one arrives and is hashed; three of them are in memory at most."""
    with ThreadPoolExecutor(1, "sandseal-write") as writer:
        written = None
        for chunk in chunks:
            content = bytes(chunk)  # whoever reads the stream uses its buffer again
            if written:
                written.result()
            written = writer.submit(append, content)
        if written:
            written.result()


def _missing(digest: Digest) -> FileMissing:
    return FileMissing(f"the store has no blob {digest}", digest=digest.hex)
