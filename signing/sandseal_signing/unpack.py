"""Unpacking an archive into a new folder, for tools that want files; what is written is what was hashed."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandseal_signing.pack import Contents, Progress, Rereadable, read_seal
from sandseal_signing.seal import SealReader

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def unpack_seal(source: Rereadable, out: Path, progress: Progress = lambda _: None) -> Contents:
    """Write an archive's files and signatures into a folder; trusts nobody, so decides nothing.

    The archive is read whole and checked before the first file is written, and every file once more while it is.

    Args:
        source: the archive from its start.
        out: the folder, which is made here and removed again when this raises.
        progress: gets the files' bytes when they are checked.

    Raises:
        FileExistsError: `out` is already there.
        FormatError, IntegrityError: what `read_seal` finds, or a file that changed meanwhile.
    """
    contents = read_seal(source, progress)
    source.seek(0)
    reader = SealReader(source)
    reader.signatures()
    with new_folder(out):
        for name, data in contents.signatures.items():
            write_new(out / name, (memoryview(data),))
        for resource in contents.statement.in_transfer_order:
            write_new(out / resource.name, resource.check(reader.read(resource)))
    return contents


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make a folder for the block to fill; it goes again, with all that is in it, when the block raises.

    Raises:
        FileExistsError: something is already there.
    """
    path.mkdir(parents=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def write_new(path: Path, chunks: Iterable[memoryview]) -> None:
    """Write a file that is not there yet, and the folders above it.

    Raises:
        FileExistsError: something of this name is already there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, _WRITE, 0o644), "wb", buffering=0) as file:
        for chunk in chunks:
            while chunk:
                chunk = chunk[file.write(chunk) :]
