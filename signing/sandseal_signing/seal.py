"""The .seal file: an uncompressed ustar archive that has exactly one valid form, read once from front to back.

Every header is rendered again from its name and size and compared byte for byte, so no second reading of an archive
exists: no links, folders, modes, owners, times, extensions or hidden fields. Nothing is ever extracted by name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from sandseal_signing.digest import CHUNK, Readable
from sandseal_signing.envelope import MAX_SIGNATURE_BYTES, MAX_SIGNATURES
from sandseal_signing.errors import (
    FileMissing,
    FileUnexpected,
    LimitExceeded,
    SealInvalid,
    SealTruncated,
    SizeMismatch,
)
from sandseal_signing.names import SIGNATURES, split_ustar
from sandseal_signing.statement import Resource

BLOCK = 512

_OCTAL_LIMIT = 8**11
_ZERO_BLOCK = bytes(BLOCK)


def render_header(name: str, size: int) -> bytes:
    """The one ustar header for a member of this name and size in bytes (POSIX.1-1988; base-256 from 8 GiB on)."""
    split = split_ustar(name)
    if split is None:
        raise SealInvalid(f"member name {name!r} does not fit a ustar header")
    prefix, base = split
    size_field = b"%011o\0" % size if size < _OCTAL_LIMIT else b"\x80" + size.to_bytes(11, "big")
    header = b"".join(
        (
            base.encode().ljust(100, b"\0"),
            b"0000644\0" + b"0000000\0" * 2,
            size_field,
            b"00000000000\0",
            b" " * 8,
            b"0",
            bytes(100),
            b"ustar\x0000",
            bytes(64),
            b"0000000\0" * 2,
            prefix.encode().ljust(155, b"\0"),
            bytes(12),
        )
    )
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def _parse_header(block: bytes) -> tuple[str, int] | None:
    """The member's name and size in bytes; None if the block is not what `render_header` makes of them."""
    try:
        prefix, base = (field.partition(b"\0")[0].decode("ascii") for field in (block[345:500], block[:100]))
        size = int.from_bytes(block[125:136], "big") if block[124] == 0x80 else int(block[124:135], 8)
        name = f"{prefix}/{base}" if prefix else base
        return (name, size) if render_header(name, size) == block else None
    except ValueError:
        return None


class SealWriter:
    """Writes a .seal file member by member; the caller keeps the order.

    Args:
        out: where to; written once from front to back.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def add(self, name: str, size: int, chunks: Iterable[memoryview]) -> None:
        """Write one member.

        Raises:
            SizeMismatch: the chunks are not `size` bytes together.
        """
        self._out.write(render_header(name, size))
        written = 0
        for chunk in chunks:
            self._out.write(chunk)
            written += len(chunk)
        if written != size:
            raise SizeMismatch(f"{name!r} has {written} bytes, {size} were announced", name=name)
        self._out.write(bytes(-size % BLOCK))

    def close(self) -> None:
        """Write the end of the archive; the file itself stays open."""
        self._out.write(_ZERO_BLOCK * 2)


class SealReader:
    """Reads a .seal stream once: signatures, then each resource when it is asked for, in transfer order.

    Args:
        stream: the archive from its first byte; left open.
    """

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._at = 0
        self._next: tuple[str, int] | None = None
        self._ended = False
        self._buffer = memoryview(bytearray(CHUNK))

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name; what follows them is left for `read`.

        Raises:
            SealInvalid, SealTruncated: not a .seal file, or only the beginning of one.
            FileUnexpected: signature files out of order, or one twice.
            LimitExceeded: more than 16 signatures or 32 MiB.
        """
        found: dict[str, bytes] = {}
        last, total = "", 0
        while (member := self._peek()) is not None and member[0].startswith(f"{SIGNATURES}/"):
            name, size = member
            total += size
            if len(found) == MAX_SIGNATURES or total > MAX_SIGNATURE_BYTES:
                raise LimitExceeded(f"more than {MAX_SIGNATURES} signatures or {MAX_SIGNATURE_BYTES} bytes of them")
            if name <= last:
                raise FileUnexpected(f"{name!r} stands after {last!r}; signature files come once each, by name")
            found[name] = b"".join(bytes(chunk) for chunk in self._content(name, size))
            last = name
        return found

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """The content of the next member, which must be `resource`; chunks are valid until the next one.

        Raises:
            FileMissing, FileUnexpected, SizeMismatch: another member stands here.
            SealTruncated: the stream ends inside it.
        """
        member = self._peek()
        if member is None:
            raise FileMissing(f"{resource.name!r} is signed but not in the archive", name=resource.name)
        name, size = member
        if name != resource.name:
            raise FileUnexpected(
                f"the archive has {name!r} where the signed file {resource.name!r} must come", name=name
            )
        if size != resource.size:
            raise SizeMismatch(f"{name!r} has {size} bytes, {resource.size} were signed", name=name)
        return self._content(name, size)

    def members(self) -> Iterator[tuple[str, int, Iterator[memoryview]]]:
        """What is left as (name, size, content), for archives that nobody has signed yet."""
        while (member := self._peek()) is not None:
            yield *member, self._content(*member)

    def finish(self) -> None:
        """Check that the archive ends here.

        Raises:
            FileUnexpected: another member or bytes follow.
        """
        if (member := self._peek()) is not None:
            raise FileUnexpected(f"the archive has {member[0]!r}, which nobody signed", name=member[0])

    def _peek(self) -> tuple[str, int] | None:
        """The next member's name and size; None at the end of the archive, after which nothing may come."""
        if self._next is None and not self._ended:
            self._next = self._header()
            self._ended = self._next is None
        return self._next

    def _header(self) -> tuple[str, int] | None:
        at, block = self._at, self._exactly(BLOCK)
        if block != _ZERO_BLOCK:
            if member := _parse_header(block):
                return member
            raise SealInvalid(f"the archive header at byte {at} is not in the one form that a .seal file has", at=at)
        if self._exactly(BLOCK) != _ZERO_BLOCK:
            raise SealInvalid(f"a single zero block at byte {at}, where the archive ends with two", at=at)
        if self._fill(memoryview(bytearray(1))):
            raise FileUnexpected(f"bytes follow the end of the archive at byte {at + 2 * BLOCK}", at=at + 2 * BLOCK)
        return None

    def _content(self, name: str, size: int) -> Iterator[memoryview]:
        """The content of the member whose header was read last; to be taken to its end."""
        self._next = None
        left = size
        while left:
            view = self._buffer[: min(left, CHUNK)]
            got = self._fill(view)
            if got < len(view):
                raise SealTruncated(f"the stream ends {left - got} bytes before the end of {name!r}", at=self._at)
            left -= got
            yield view
        if any(self._exactly(-size % BLOCK)):
            raise SealInvalid(f"the padding after {name!r} is not zero", name=name)

    def _exactly(self, count: int) -> bytes:
        data = bytearray(count)
        if self._fill(memoryview(data)) < count:
            raise SealTruncated(f"the stream ends after {self._at} bytes, before the end of the archive", at=self._at)
        return bytes(data)

    def _fill(self, view: memoryview) -> int:
        """Read until `view` is full or the stream ends; the bytes read."""
        got = 0
        while got < len(view) and (count := self._stream.readinto(view[got:])):
            got += count
        self._at += got
        return got
