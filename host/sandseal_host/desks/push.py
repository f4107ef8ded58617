"""A pushed .seal stream, of which no more is taken than bundle.json where the token does not cover the model."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from sandseal_host.api.grant import Grant
from sandseal_host.registry.sources import Upload
from sandseal_signing.bundle import InMemory
from sandseal_signing.digest import Readable
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.statement import Resource


class Push:
    """A `Source` that ends where its publisher may not know of the model; nothing was stored by then.

    Args:
        stream: read once from front to back, from the first question on.
        publisher: whose pattern must cover the model's name.
    """

    def __init__(self, stream: Readable, publisher: Grant) -> None:
        self._stream, self._publisher = stream, publisher

    @cached_property
    def _upload(self) -> Upload:
        return Upload(self._stream)

    def signatures(self) -> Mapping[str, bytes]:
        """The signature files by name."""
        return self._upload.signatures()

    def read(self, resource: Resource) -> Iterator[memoryview]:
        """The content of the stream's next member.

        Raises:
            ModelUnknown: it is bundle.json, as signed, and names a model that is hidden from the publisher.
        """
        if resource.name != MANIFEST:
            return self._upload.read(resource)
        content = InMemory().write(resource, resource.check(self._upload.read(resource)))
        self._publisher.need_model(parse_manifest(content).name)
        return iter((memoryview(content),))

    def finish(self) -> None:
        """Check that the stream ends here."""
        self._upload.finish()
