"""A bundle as a folder: which files count, how one is opened without following links, and the folder as a `Source`."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import NoReturn

from sandseal_signing.digest import read_chunks
from sandseal_signing.envelope import MAX_FILE_BYTES, MAX_SIGNATURES
from sandseal_signing.errors import FileMissing, FileUnexpected, LimitExceeded
from sandseal_signing.names import SIGNATURES
from sandseal_signing.statement import Resource

# Not every system has all of them. Without O_NONBLOCK the opening of a pipe would wait for its other end.
_READ = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def is_left_out(name: str) -> bool:
    """Whether a path relative to a bundle's folder is outside the signed set: `signatures/` and `.git*` at the top."""
    return name == SIGNATURES or ("/" not in name and name.startswith(".git"))


def list_files(folder: Path, left_out: Callable[[str], bool] = is_left_out) -> list[str]:
    """The names of every plain file below `folder` in code-point order, `/` between parts.

    Args:
        left_out: asked for each path, folders first; what it leaves out is not looked at further.

    Raises:
        FileUnexpected: a link or a special file.
        OSError: a folder that cannot be read.
    """
    names: list[str] = []
    for parent, folders, files in os.walk(folder, onerror=_raise):
        inside = Path(parent).relative_to(folder)
        folders[:] = [name for name in folders if not left_out((inside / name).as_posix())]
        files = [name for name in files if not left_out((inside / name).as_posix())]
        for path in (Path(parent, name) for name in (*folders, *files)):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                _refuse(path)
        names += [(inside / name).as_posix() for name in files]
    return sorted(names)


def open_plain(path: Path) -> FileIO:
    """Open a plain file for reading, unbuffered; never a link's target, never a pipe or device.

    Raises:
        FileMissing: there is nothing of this name.
        FileUnexpected: it is a link or a special file.
    """
    try:
        if path.is_symlink():  # for systems without O_NOFOLLOW
            _refuse(path)
        descriptor = os.open(path, _READ)
    except (FileNotFoundError, NotADirectoryError):
        raise FileMissing(f"there is no file {str(path)!r}", name=path.name) from None
    except OSError as error:
        raise FileUnexpected(f"{str(path)!r} cannot be read as a plain file: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        _refuse(path)
    return FileIO(descriptor)


class FolderSource:
    """A bundle's files in a folder, its signature files under `signatures/`; files may be read from several threads.

    Args:
        folder: as `sandseal unpack` writes it, or a publisher's working folder with its signatures.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: set[str] = set()

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name.

        Raises:
            FileUnexpected: something else than plain files.
            LimitExceeded: more than 16, or one over 8 MiB.
        """
        folder = self._folder / SIGNATURES
        if folder.is_symlink():
            _refuse(folder)
        names = list_files(folder, lambda _: False) if folder.exists() else []
        if len(names) > MAX_SIGNATURES:
            raise LimitExceeded(f"{folder} holds {len(names)} files, more than {MAX_SIGNATURES} signatures")
        return {f"{SIGNATURES}/{name}": _signature(folder / name) for name in names}

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """The content of the file of this name; chunks are valid until the next one.

        Raises:
            FileMissing, FileUnexpected: it is not there, or not a plain file.
        """
        self._asked.add(resource.name)
        return self._content(resource.name)

    def finish(self) -> None:
        """Check that nothing else lies in the folder.

        Raises:
            FileUnexpected: a file that nobody signed, a link or a special file.
        """
        if extra := [name for name in list_files(self._folder) if name not in self._asked]:
            raise FileUnexpected(
                f"in the folder but not signed: {', '.join(map(repr, extra[:10]))}",
                hint="move it out of the folder, or pack and sign again",
                names=extra,
            )

    def _content(self, name: str) -> Iterator[memoryview]:
        with open_plain(self._folder / name) as file:
            yield from read_chunks(file)


def _signature(path: Path) -> bytes:
    with open_plain(path) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise LimitExceeded(f"{str(path)!r} has more than {MAX_FILE_BYTES} bytes", name=path.name)
    return data


def _refuse(path: Path) -> NoReturn:
    raise FileUnexpected(
        f"{path} is a link or a special file; a bundle holds plain files only",
        hint="replace it by a copy of what it points to, or move it out of the folder",
    )


def _raise(error: OSError) -> NoReturn:
    raise error  # os.walk would leave an unreadable folder out without a word
