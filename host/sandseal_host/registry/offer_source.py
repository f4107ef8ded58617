"""An offered bundle as a `Source`: its head as it was sent, its other files as they arrived or are stored."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from sandseal_host.registry.blobs import BlobStore, Deposit
from sandseal_host.registry.partial import Partial
from sandseal_signing.digest import Digest, read_chunks
from sandseal_signing.envelope import MAX_SIGNATURE_BYTES
from sandseal_signing.errors import FileMissing, FileUnexpected
from sandseal_signing.folder import open_plain
from sandseal_signing.manifest import MAX_BYTES
from sandseal_signing.names import MANIFEST
from sandseal_signing.seal import SealReader
from sandseal_signing.statement import Resource

MAX_HEAD_BYTES = MAX_SIGNATURE_BYTES + MAX_BYTES + (64 << 10)  # the rest is headers and padding


@dataclass(frozen=True, slots=True)
class OfferHead:
    """The front of a .seal file, up to and with bundle.json; nothing of it is verified.

    Args:
        signatures: the signature files by name.
        manifest: the content of bundle.json.
    """

    signatures: Mapping[str, bytes]
    manifest: bytes

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a head.

        Raises:
            SealInvalid, SealTruncated, LimitExceeded, FileMissing, FileUnexpected: it is not one.
        """
        stream = io.BytesIO(data)
        reader = SealReader(stream)
        signatures = reader.signatures()
        name, _, chunks = next(reader.members(), ("", 0, iter(())))
        if name != MANIFEST:
            raise FileMissing(f"an offer ends with {MANIFEST}, which must follow its signature files")
        manifest = b"".join(map(bytes, chunks))
        if stream.read(1):
            raise FileUnexpected(
                f"bytes follow {MANIFEST}, where an offer ends", hint="send the .seal file's head only"
            )
        return cls(signatures, manifest)


class OfferSource:
    """What an offer has of its bundle; several threads may read.

    Args:
        head: as it was sent.
        partials: the blobs that arrived, by digest; any other comes from the store.
        store: where accepted bundles' blobs are.
    """

    def __init__(self, head: OfferHead, partials: Mapping[Digest, Partial], store: BlobStore) -> None:
        self._head, self._partials, self._store = head, partials, store

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name."""
        return self._head.signatures

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """A file's content, whatever is in it; chunks are valid until the next one.

        Raises:
            FileMissing: neither the offer nor the store has it.
        """
        if resource.name == MANIFEST:
            yield memoryview(self._head.manifest)
            return
        partial = self._partials.get(resource.digest)
        with open_plain(partial.path) if partial else self._store.open(resource.digest) as file:
            yield from read_chunks(file)

    def finish(self) -> None:
        """Nothing: only what the statement lists was ever asked for."""


class Adopting:
    """A `Sink` that makes arrived files blobs of the store by a link, so that their bytes are written once.

    Args:
        deposit: the upload's hand in the store.
        partials: what arrived; frozen, so what was hashed is what is linked.
    """

    def __init__(self, deposit: Deposit, partials: Mapping[Digest, Partial]) -> None:
        self._deposit, self._partials = deposit, partials

    def write(self, resource: Resource, chunks: Iterator[memoryview]) -> None:
        """Let the content be hashed, then keep the file that it came from.

        Raises:
            StoreError: the disk fails.
        """
        if resource.name == MANIFEST:
            self._deposit.write(resource, chunks)
            return
        self._deposit.hold((resource.digest,))
        for _ in chunks:
            pass
        if partial := self._partials.get(resource.digest):  # else the store's own blob was just hashed
            self._deposit.adopt(resource.digest, partial.path)
