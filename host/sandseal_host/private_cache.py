"""What this host made of what it verified, kept for its next start: compiled plugins, optimised graphs.

Whoever can write into a folder must not be able to say thereby what runs. So every entry carries a MAC under a secret
of this host's own, over its key and its content, and bytes without a right MAC are never given out.
"""

import errno
import hmac
import logging
import os
import secrets
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandseal_host.errors import StoreError

_MAC, _SECRET = 32, 32  # bytes
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """A cache since it was opened.

    Args:
        hits_total: entries that were read.
        misses_total: entries that were not there.
        rejected_total: of these, entries that this host did not write, or that were changed since.
        size_bytes: of all entries.
    """

    hits_total: int
    misses_total: int
    rejected_total: int
    size_bytes: int


class PrivateCache:
    """A folder of entries, each a MAC and then the content; at the bound the least recently used go. Thread-safe.

    Args:
        folder: made when absent, for this user only; holds nothing else.
        secret_file: made when absent; not in `folder`, which may be copied or restored without it.
        max_size: bytes of all entries.
        what: they are, for the log.

    Raises:
        StoreError: folder or secret cannot be used, or others may read the secret.
    """

    def __init__(self, folder: Path, secret_file: Path, max_size: int, what: str) -> None:
        self._folder, self._max_size, self._what = folder, max_size, what
        self._lock = threading.Lock()
        self._hits = self._misses = self._rejected = 0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
            for unfinished in folder.glob(".*"):
                unfinished.unlink(missing_ok=True)
            self._secret = _secret(secret_file)
        except OSError as error:
            where = error.filename or folder
            raise StoreError(f"cannot keep {what} in {folder}: {where}: {error.strerror}") from error

    def get(self, key: str) -> bytes | None:
        """The content kept under a key; None where there is none that this host wrote.

        Args:
            key: 64 hex digits.
        """
        with self._lock:
            content = self._read(key)
            self._hits += content is not None
            self._misses += content is None
            return content

    def put(self, key: str, content: bytes) -> None:
        """Keep content under a key; where the disk does not take it, that is logged and no more."""
        if _MAC + len(content) > self._max_size:
            return
        with self._lock:
            try:
                self._write(key, content)
            except OSError as error:
                _log.warning("%s are not kept in %s: %s", self._what, self._folder, error.strerror)

    def statistics(self) -> CacheStatistics:
        """The counts, and the size at this moment."""
        with self._lock:
            size = sum(status.st_size for status, _ in self._entries())
            return CacheStatistics(self._hits, self._misses, self._rejected, size)

    def _read(self, key: str) -> bytes | None:
        path = self._folder / key
        try:
            entry = _read_private(path, self._max_size)
            with suppress(OSError):
                os.utime(path)
        except FileNotFoundError:
            return None
        except OSError:
            entry = b""
        mac, content = entry[:_MAC], entry[_MAC:]
        if hmac.compare_digest(mac, self._mac(key, content)):
            return content
        self._rejected += 1
        _log.warning("%s is not what this host wrote there; it is deleted and made again", path)
        with suppress(OSError):
            path.unlink()
        return None

    def _write(self, key: str, content: bytes) -> None:
        self._make_room(_MAC + len(content))
        _write_private(self._folder / key, self._mac(key, content) + content)

    def _make_room(self, needed: int) -> None:
        entries = self._entries()
        room = self._max_size - sum(status.st_size for status, _ in entries)
        for status, entry in entries:
            if needed <= room:
                return
            entry.unlink()
            room += status.st_size

    def _entries(self) -> list[tuple[os.stat_result, Path]]:
        """Every entry, the least recently used first."""
        with suppress(OSError):  # such as where somebody deleted it all
            entries = [(entry.lstat(), entry) for entry in self._folder.iterdir()]
            return sorted(entries, key=lambda entry: entry[0].st_mtime_ns)
        return []

    def _mac(self, key: str, content: bytes) -> bytes:
        return hmac.digest(hmac.digest(self._secret, key.encode(), "sha256"), content, "sha256")


def _read_private(path: Path, max_size: int) -> bytes:
    """Read a regular file of this user's that nobody else may use."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if not (stat.S_ISREG(status.st_mode) and private and status.st_size <= max_size):
            raise PermissionError(errno.EPERM, "no file of at most the size wanted that only this user may read", path)
        return file.read(status.st_size)


def _write_private(path: Path, data: bytes) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.unlink(missing_ok=True)
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        fresh.replace(path)
    except OSError:  # a full disk, above all
        fresh.unlink(missing_ok=True)
        raise


def _secret(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(path, secrets.token_bytes(_SECRET))
    secret = _read_private(path, _SECRET)
    if len(secret) != _SECRET:
        raise StoreError(f"{path} is no secret of {_SECRET} bytes", hint="delete it; all is then made again")
    return secret
