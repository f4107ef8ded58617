"""The scrub: hashes the stored files again and again, slowly, to find the one that the disk or somebody changed."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sandseal_host.errors import StoreError
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.files import replace_private
from sandseal_signing.digest import Digest, hash_chunks, read_chunks
from sandseal_signing.errors import FileMissing, FormatError

_LOOK_S = 60.0  # between two looks for blobs that are due
_KEEP_S = 60.0  # between two writings of what was checked

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScrubStatistics:
    """How old the last checks are, and what they found since the start.

    Args:
        blobs: how many there are.
        damaged: how many of them are not what they should be, at their last check.
        oldest_age_s: seconds since the last check of the blob that waits the longest.
        checked_total: checks so far.
        failures_total: those that found damage.
    """

    blobs: int
    damaged: int
    oldest_age_s: float
    checked_total: int
    failures_total: int


@dataclass(frozen=True, slots=True)
class BlobCheck:
    """One blob's last check; the first one is when it was written.

    Args:
        age_s: seconds since then.
        damaged: whether it is not what it should be.
    """

    age_s: float
    damaged: bool


class Scrub:
    """Checks every blob of a store in a thread of its own, those first whose last check is the longest ago.

    Args:
        store: where the blobs are.
        memory: a file that keeps the times of the last checks over restarts.
        rate: bytes a second at most; 0: nothing is checked.
        found: called in that thread with every damaged blob, at each check.
        rest_s: seconds for which a blob is left alone after a check.
    """

    def __init__(
        self, store: BlobStore, memory: Path, rate: float, found: Callable[[Digest], None], *, rest_s: float
    ) -> None:
        self._store, self._memory, self._rate, self._found, self._rest_s = store, memory, rate, found, rest_s
        self._checked = _remembered(memory)
        self._kept_at = time.monotonic()
        self._damaged: dict[Digest, float] = {}  # when it was found
        self._checks = self._failures = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandseal-scrub", daemon=True)

    def start(self) -> None:
        """Begin."""
        if self._rate > 0:
            self._thread.start()

    def close(self) -> None:
        """End within the reading of one chunk, and keep what was checked."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
            self._keep()

    def check(self, digest: Digest) -> bool:
        """Whether a blob is what it should be; read from the disk where the system allows that, at the rate."""
        try:
            with self._store.open(digest) as file:
                _forget_cached(file)
                try:
                    return hash_chunks(self._slowly(file), lambda _: None)[0] == digest
                finally:
                    _forget_cached(file)
        except FileMissing:
            return True  # deleted meanwhile
        except (OSError, StoreError) as error:
            _log.warning("blob %s cannot be read: %s", digest, error)
            return False

    def statistics(self) -> ScrubStatistics:
        """The figures at this moment."""
        checks = self.checks()
        return ScrubStatistics(
            blobs=len(checks),
            damaged=sum(check.damaged for check in checks.values()),
            oldest_age_s=max((check.age_s for check in checks.values()), default=0.0),
            checked_total=self._checks,
            failures_total=self._failures,
        )

    def checks(self) -> Mapping[Digest, BlobCheck]:
        """Every blob's last check."""
        now, written = time.time(), self._store.written()
        return {
            digest: BlobCheck(
                age_s=max(0.0, now - max(at, self._checked.get(digest, 0.0))),
                damaged=self._damaged.get(digest, 0.0) > at,  # else it was written anew since
            )
            for digest, at in written.items()
        }

    def _run(self) -> None:
        while not self._closing.wait(min(_LOOK_S, self._rest_s)):
            try:
                self._round()
            except StoreError as error:
                _log.error("the store cannot be checked: %s", error.message)

    def _round(self) -> None:
        ages = {digest: check.age_s for digest, check in self.checks().items()}
        for digest in sorted(ages, key=ages.__getitem__, reverse=True):
            if ages[digest] < self._rest_s:
                break
            # Read twice before it counts as damaged: a push may have written it anew in between.
            sound = self.check(digest) or self.check(digest)
            if self._closing.is_set():
                return
            self._note(digest, sound)
        self._keep_now_and_then()

    def _note(self, digest: Digest, sound: bool) -> None:
        self._checked[digest] = time.time()
        self._checks += 1
        if sound:
            self._damaged.pop(digest, None)
        else:
            self._damaged[digest] = self._checked[digest]
            self._failures += 1
            self._found(digest)
        self._keep_now_and_then()

    def _slowly(self, file: FileIO) -> Iterator[memoryview]:
        began, read = time.monotonic(), 0
        for chunk in read_chunks(file):
            yield chunk
            read += len(chunk)
            ahead_s = read / self._rate - (time.monotonic() - began)
            if ahead_s > 0 and self._closing.wait(ahead_s):
                return

    def _keep_now_and_then(self) -> None:
        if time.monotonic() - self._kept_at > _KEEP_S:
            self._keep()

    def _keep(self) -> None:
        self._kept_at = time.monotonic()
        here = self._store.written()
        self._checked = {digest: at for digest, at in self._checked.items() if digest in here}
        try:
            replace_private(self._memory, json.dumps({digest.hex: at for digest, at in self._checked.items()}).encode())
        except OSError as error:
            _log.warning("the times of the last checks cannot be kept: %s", error)


def _remembered(memory: Path) -> dict[Digest, float]:
    """The times that an earlier process kept; none of them where they cannot be read."""
    with suppress(OSError, ValueError, AttributeError, FormatError):
        kept = json.loads(memory.read_bytes())
        return {Digest(digest): float(at) for digest, at in kept.items()}
    return {}


def _forget_cached(file: FileIO) -> None:
    """Let the system drop its copy of the file, so that the disk's is read, and others' copies stay in memory."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
