"""A blob on its way in: a file that grows from its front, by as many requests as it takes."""

import os
import threading
from pathlib import Path

from sandseal_host.errors import NotReady, OffsetWrong
from sandseal_host.registry.files import disk_errors
from sandseal_signing.digest import Digest, Readable, read_chunks
from sandseal_signing.errors import SizeMismatch


class Partial:
    """What has arrived of one blob; thread-safe. Nothing is believed about its bytes before they are hashed.

    Of several writers the last one to begin goes on, so a client that lost its connection need not wait until the
    host has noticed.

    Args:
        path: the file; made when absent.
        digest: what its bytes should hash to.
        size: how many there will be, as signed.

    Raises:
        StoreError: the disk fails.
    """

    def __init__(self, path: Path, digest: Digest, size: int) -> None:
        self.path, self.digest, self.size = path, digest, size
        self._guard = threading.Lock()
        self._turn = 0
        self._frozen = False
        with disk_errors(path, "keep a blob"):
            path.touch(0o600)

    @property
    def offset(self) -> int:
        """How many bytes are there."""
        with disk_errors(self.path, "look at a blob"):
            return self.path.stat().st_size

    def write(self, at: int, stream: Readable) -> None:
        """Append what the stream has, which may end early; byte 0 starts the blob again.

        Raises:
            OffsetWrong: the piece does not begin where the file ends, or another one has begun meanwhile.
            SizeMismatch: more bytes than were signed; they are not kept.
            NotReady: the offer is being finished.
            StoreError: no room, or the disk fails.
        """
        turn = self._begin(at)
        for chunk in read_chunks(stream):
            self._append(turn, at, chunk)
            at += len(chunk)
        if at == self.size:
            with disk_errors(self.path, "write a blob"), self.path.open("rb") as file:
                os.fsync(file.fileno())

    def settle(self) -> None:
        """Let no request that began earlier append any more, so that the offset is what the next one finds."""
        with self._guard:
            self._turn += 1

    def freeze(self, frozen: bool = True) -> None:
        """Let nobody write from now on, or let them again."""
        with self._guard:
            self._frozen = frozen
            self._turn += 1

    def clear(self) -> None:
        """Forget all bytes. A hard link to them keeps them: it is another file from now on."""
        with self._guard:
            self._clear()

    def _begin(self, at: int) -> int:
        with self._guard:
            self._require_thawed()
            self._turn += 1
            if at == 0:
                self._clear()
            if at != (there := self.offset):
                raise OffsetWrong(f"blob {self.digest} goes on at byte {there}, not at {at}", offset=there)
            return self._turn

    def _append(self, turn: int, at: int, chunk: memoryview) -> None:
        if at + len(chunk) > self.size:
            raise SizeMismatch(f"blob {self.digest} has more than the {self.size} bytes that were signed")
        with self._guard, disk_errors(self.path, "write a blob"):
            if turn != self._turn:
                self._require_thawed()
                raise OffsetWrong(f"another request goes on with blob {self.digest}", offset=self.offset)
            # Opened anew each time: a request that stands still must not hold a blob open for writing.
            with self.path.open("ab", buffering=0) as file:
                while chunk:
                    chunk = chunk[file.write(chunk) :]

    def _clear(self) -> None:
        with disk_errors(self.path, "write a blob"):
            self.path.unlink(missing_ok=True)
            self.path.touch(0o600)

    def _require_thawed(self) -> None:
        if self._frozen:
            raise NotReady("the offer is being finished", hint="ask again when that has ended", retry_after=2.0)
