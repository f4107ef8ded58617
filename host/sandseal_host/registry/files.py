"""Writing to disk so that a crash leaves the old state or the new one, never half of it."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable: a rename survives a power cut only after this (POSIX fsync on a directory)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_private(path: Path, data: bytes) -> None:
    """Put `data` at `path` as a 0600 file, in one step.

    Raises:
        OSError: as the system says; an earlier file at `path` is then unchanged.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)
