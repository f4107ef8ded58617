"""The trust file on disk: read at the start, again when it or one of its key files changes, all or nothing."""

import logging
import stat
import threading
from pathlib import Path

from sandseal_host.errors import StoreError
from sandseal_host.registry.files import replace_private
from sandseal_signing.digest import Digest
from sandseal_signing.errors import PolicyInvalid
from sandseal_signing.trust import TrustPolicy

_log = logging.getLogger(__name__)


class PolicyFile:
    """The trust policy in force; thread-safe.

    A new version that is not valid, or whose serial is below the one in force, changes nothing: `problem` says why and
    a warning is logged, once per change of the files. `digest` is that of the text in force.

    Args:
        path: the trust file; its key files are named relative to it.

    Raises:
        PolicyInvalid: there is no valid policy to start with.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._stamps: dict[Path, tuple[int, ...]] = {}
        self._policy, self.digest = self._read()
        self.problem: str | None = None

    def current(self) -> TrustPolicy:
        """The policy in force; looks at the files' state first, and reads them when one changed."""
        with self._guard:
            if any(_stamp(path) != stamp for path, stamp in self._stamps.items()):
                self._replace()
            return self._policy

    def write(self, text: bytes) -> None:
        """Put another text in the file's place, in one step; the next `current` reads it. Its mode stays.

        Raises:
            StoreError: it cannot be written; the old text stays.
        """
        try:
            path = self._path.resolve()  # a link stays one
            replace_private(path, text, stat.S_IMODE(path.stat().st_mode))
        except OSError as error:
            raise StoreError(
                f"cannot write the trust file {self._path}: {error.strerror}",
                hint="let the host write the file's folder, or edit the file by hand",
            ) from error

    def _replace(self) -> None:
        try:
            fresh, digest = self._read()
            if fresh.serial < self._policy.serial:
                raise PolicyInvalid(f"serial {fresh.serial} is below {self._policy.serial}, which is in force")
        except PolicyInvalid as error:
            self.problem = error.message
            _log.warning(
                "%s: the new policy is refused, serial %d stays: %s", self._path, self._policy.serial, error.message
            )
        else:
            self.problem = None
            self._policy, self.digest = fresh, digest
            _log.info("%s: policy serial %d is in force", self._path, fresh.serial)

    def _read(self) -> tuple[TrustPolicy, Digest]:
        self._stamps = {}
        try:
            text = self._content(self._path).decode()
        except OSError as error:
            raise PolicyInvalid(f"cannot read the trust file {self._path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise PolicyInvalid(f"the trust file {self._path} is not UTF-8: {error}") from None
        # What is not text is not a key either, and `parse` says so.
        policy = TrustPolicy.parse(text, lambda name: self._content(self._path.parent / name).decode(errors="replace"))
        return policy, Digest.of(text.encode())

    def _content(self, path: Path) -> bytes:
        self._stamps[path] = _stamp(path)  # first the state, then the bytes: a change in between is seen next time
        return path.read_bytes()


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when the file does; empty while there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
