"""SHA-256 digests and how bytes of unknown length are hashed."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from sandseal_signing.errors import FormatError

CHUNK = 1 << 20  # below 64 KiB hashlib loses a quarter of its speed; above 1 MiB nothing is gained

_HEX = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A SHA-256 digest as 64 lower-case hex digits."""

    hex: str

    def __post_init__(self) -> None:
        if not _HEX.match(self.hex):
            raise FormatError(f"{self.hex[:80]!r} is not a SHA-256 digest of 64 lower-case hex digits")

    def __str__(self) -> str:
        return self.hex

    @classmethod
    def of(cls, data: bytes | memoryview) -> "Digest":
        """The digest of `data`."""
        return cls(hashlib.sha256(data).hexdigest())


def hash_file(file: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> tuple[Digest, int]:
    """The digest and size in bytes of what is left of `file`; `progress` gets each chunk's length."""
    sha, size, buffer = hashlib.sha256(), 0, bytearray(CHUNK)
    view = memoryview(buffer)
    while got := file.readinto(view):  # type: ignore[attr-defined]
        sha.update(view[:got])
        size += got
        progress(got)
    return Digest(sha.hexdigest()), size
