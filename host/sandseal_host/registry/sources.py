"""Where the registry takes a bundle's bytes from: an upload's stream, or its own store."""

from collections.abc import Iterator, Mapping

from sandseal_host.registry.blobs import BlobStore
from sandseal_signing.digest import Readable, read_chunks
from sandseal_signing.seal import SealReader
from sandseal_signing.statement import Resource


class Upload:
    """A .seal stream whose signatures were read, so that they can be asked for more than once.

    Raises:
        SealInvalid, SealTruncated, LimitExceeded, FileUnexpected: see `SealReader.signatures`.
    """

    def __init__(self, stream: Readable) -> None:
        self._reader = SealReader(stream)
        self._signatures = self._reader.signatures()

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name."""
        return self._signatures

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """The content of the stream's next member."""
        return self._reader.read(resource)

    def finish(self) -> None:
        """Check that the stream ends here."""
        self._reader.finish()


class Stored:
    """A bundle whose files lie in the blob store; a blob longer than signed shows as such.

    Args:
        signatures: its signature files by name.
    """

    def __init__(self, store: BlobStore, signatures: Mapping[str, bytes]) -> None:
        self._store = store
        self._signatures = signatures

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name."""
        return self._signatures

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """The blob of this digest, whatever is in it; chunks are valid until the next one."""
        with self._store.open(resource.digest) as file:
            yield from read_chunks(file)

    def finish(self) -> None:
        """Nothing: the store holds only what it was asked for."""
