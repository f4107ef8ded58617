"""What the edge needs for offers and their blobs, as it sees it; app.py connects the registry's side."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sandseal_host.api.grant import Grant
from sandseal_host.api.ports import BundleEntry
from sandseal_signing.digest import Readable


@dataclass(frozen=True, slots=True)
class BlobEntry:
    """A blob on its way in.

    Args:
        digest: SHA-256 of its content, 64 hex digits.
        size: bytes that it will have.
        offset: bytes that are there.
    """

    digest: str
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class OfferEntry:
    """An offer: what the host lacks of a bundle that it would take.

    Args:
        id: the bundle's id, 64 hex digits.
        missing: the blobs to send, largest first.
        expires_at: when the offer ends, and with it what has arrived.
    """

    id: str
    missing: tuple[BlobEntry, ...]
    expires_at: datetime


class Offers(Protocol):
    """The open offers; a token knows of its own only. Every method may block."""

    def offer(self, head: bytes, publisher: Grant) -> OfferEntry:
        """Judge a bundle by the front of its .seal file; the same one again is the same offer.

        Raises:
            SandsealError: it is refused, or may not have the room.
        """
        ...

    def blob(self, offer: str, digest: str, publisher: Grant) -> BlobEntry:
        """How much of a blob is there; a request that is still sending it ends here.

        Raises:
            BlobUnknown: no such offer of this token expects it.
        """
        ...

    def write(self, offer: str, digest: str, at: int, stream: Readable, publisher: Grant) -> BlobEntry:
        """Append to a blob from byte `at` on; what arrived before the stream ended stays.

        Raises:
            BlobUnknown: see `blob`; nothing is read.
            OffsetWrong: it goes on at another byte.
            SizeMismatch: it would be longer than was signed.
        """
        ...

    def finish(self, bundle_id: str, publisher: Grant) -> BundleEntry:
        """Take the bundle in, as if it had been uploaded as one.

        Raises:
            BundleUnknown: no such offer of this token.
            OfferIncomplete: blobs are missing.
            SandsealError: the bundle is refused.
        """
        ...

    def withdraw(self, bundle_id: str, publisher: Grant) -> None:
        """End an offer, and delete what has arrived.

        Raises:
            BundleUnknown: no such offer of this token.
        """
        ...
