"""SHA-256 digests, and how a stream is read and hashed in chunks."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sandseal_signing.errors import FormatError

CHUNK = 1 << 20  # below 64 KiB hashlib loses a quarter of its speed; above 1 MiB nothing is gained

_HEX = re.compile(r"[0-9a-f]{64}\Z")


class Readable(Protocol):
    """Where bytes come from: a file, a socket's file, a request's body."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the front of `buffer`, blocking until there is something; the bytes written, 0 at the end."""
        ...


def is_hex_digest(text: str) -> bool:
    """Whether `text` is 64 lower-case hex digits."""
    return _HEX.match(text) is not None


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A SHA-256 digest as 64 lower-case hex digits."""

    hex: str

    def __post_init__(self) -> None:
        if not is_hex_digest(self.hex):
            raise FormatError(f"{self.hex[:80]!r} is not a SHA-256 digest", hint="write it as 64 lower-case hex digits")

    def __str__(self) -> str:
        return self.hex

    @classmethod
    def of(cls, data: bytes | memoryview) -> "Digest":
        """The digest of `data`."""
        return cls(hashlib.sha256(data).hexdigest())


def read_chunks(stream: Readable) -> Iterator[memoryview]:
    """What is left of `stream`, in chunks of at most 1 MiB; each is valid until the next."""
    buffer = memoryview(bytearray(CHUNK))
    while got := stream.readinto(buffer):
        yield buffer[:got]


def hash_file(file: Readable, progress: Callable[[int], None] = lambda _: None) -> tuple[Digest, int]:
    """The digest and size in bytes of what is left of `file`; `progress` gets each chunk's length."""
    return hash_chunks(read_chunks(file), progress)


def hash_chunks(chunks: Iterable[memoryview], progress: Callable[[int], None]) -> tuple[Digest, int]:
    """The digest and size in bytes of all `chunks` together; `progress` gets each one's length."""
    sha, size = hashlib.sha256(), 0
    for chunk in chunks:
        sha.update(chunk)
        size += len(chunk)
        progress(len(chunk))
    return Digest(sha.hexdigest()), size
