"""Where the parts of a signed .seal file lie, found without reading its large files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sandseal_signing.digest import CHUNK
from sandseal_signing.envelope import parse_signatures
from sandseal_signing.errors import FileMissing, SealInvalid, Unsigned
from sandseal_signing.names import MANIFEST
from sandseal_signing.seal import BLOCK, SealReader, render_header
from sandseal_signing.statement import Statement, parse_statement


@dataclass(frozen=True, slots=True)
class SealIndex:
    """A .seal file's head, and where each blob begins in it.

    Args:
        head: the file from its first byte to the end of bundle.json, padding included.
        size: bytes of all blobs together, each digest counted once.
        places: the first byte and the size of each blob, by digest.
    """

    seal: Path
    head: bytes
    size: int
    places: Mapping[str, tuple[int, int]]

    @classmethod
    def read(cls, seal: Path) -> "SealIndex":
        """Index a signed archive; nothing is verified, since the host does that.

        Raises:
            Unsigned: there is no signature, so nothing says where the files are.
            FormatError, IntegrityError: not a .seal file, or not in the order that its statement gives.
        """
        with seal.open("rb", buffering=0) as file:
            reader = SealReader(file)
            envelopes = parse_signatures(reader.signatures())
            if not envelopes:
                raise Unsigned(f"{seal} carries no signature", hint="`sandseal sign` it first")
            name, _, chunks = next(reader.members(), ("", 0, iter(())))
            if name != MANIFEST:
                raise FileMissing(f"{MANIFEST} does not follow the signatures in {seal}")
            for _ in chunks:
                pass
            end = file.tell()
            places = dict(_places(parse_statement(envelopes[0].payload), end, file))
            file.seek(0)
            head = file.read(end)
        return cls(seal, head, sum(size for _, size in places.values()), places)

    def content(self, digest: str, begin: int, end: int) -> Iterator[bytes]:
        """A blob's bytes from `begin` on and before `end`, in chunks of at most 1 MiB."""
        at, _ = self.places[digest]
        with self.seal.open("rb", buffering=0) as file:
            file.seek(at + begin)
            left = end - begin
            while left and (chunk := file.read(min(left, CHUNK))):
                yield chunk
                left -= len(chunk)


def _places(statement: Statement, at: int, file: FileIO) -> Iterator[tuple[str, tuple[int, int]]]:
    """Digest, first byte and size of every file after bundle.json, each header compared with what it must be."""
    for resource in statement.in_transfer_order[1:]:
        file.seek(at)
        if file.read(BLOCK) != render_header(resource.name, resource.size):
            raise SealInvalid(f"{resource.name!r} is not at byte {at}, where the signed order puts it", at=at)
        yield resource.digest.hex, (at + BLOCK, resource.size)
        at += BLOCK + resource.size + -resource.size % BLOCK
