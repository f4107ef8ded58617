"""Writing to disk so that a crash leaves the old state or the new one, never half of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandseal_host.errors import StoreError


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable: a rename survives a power cut only after this (POSIX fsync on a directory)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put `data` at `path` as a file that only its owner reads unless `mode` says otherwise, in one step.

    Raises:
        OSError: as the system says; an earlier file at `path` is then unchanged.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


@contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Raise what the disk raises about `path` as a StoreError that says what was being done."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {doing} in {path.parent}: {error.strerror}") from error
