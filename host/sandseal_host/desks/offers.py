"""Offers as the edge speaks of them (api.offer_port.Offers)."""

from collections.abc import Callable
from datetime import timedelta

from sandseal_host.api.grant import Grant
from sandseal_host.api.offer_port import BlobEntry, OfferEntry
from sandseal_host.api.ports import BundleEntry
from sandseal_host.errors import BlobUnknown, BundleUnknown
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.intake import Vet
from sandseal_host.registry.offers import Offers, Publisher
from sandseal_host.registry.partial import Partial
from sandseal_host.registry.pending import Pending
from sandseal_signing.digest import Digest, Readable
from sandseal_signing.errors import FormatError
from sandseal_signing.manifest import parse_manifest

Take = Callable[[Accepted | Pending], BundleEntry]


class OfferDesk:
    """Takes what publishers ask about offers; called on worker threads.

    Args:
        offers: the open ones.
        vet: looks inside a verified bundle.
        taken: puts what was taken in into service, and shows it.
        life: of an offer.
    """

    def __init__(self, offers: Offers, vet: Vet, taken: Take, life: timedelta) -> None:
        self._offers, self._vet, self._taken, self._life = offers, vet, taken, life

    def offer(self, head: bytes, publisher: Grant) -> OfferEntry:
        """Judge a head.

        Raises:
            ModelUnknown: the publisher's token does not cover the model, so nothing of it will be taken.
        """
        made = self._offers.make(head, _publisher(publisher))
        name = parse_manifest(made.head.manifest).name
        if not publisher.sees(name):
            self._offers.withdraw(made.id, _publisher(publisher))
        publisher.need_model(name)
        return OfferEntry(made.id.hex, tuple(map(_entry, made.missing)), made.began + self._life)

    def blob(self, offer: str, digest: str, publisher: Grant) -> BlobEntry:
        """How much is there."""
        return _entry(self._offers.blob(*_digests(offer, digest), _publisher(publisher)))

    def write(self, offer: str, digest: str, at: int, stream: Readable, publisher: Grant) -> BlobEntry:
        """Append."""
        return _entry(self._offers.write(*_digests(offer, digest), at, stream, _publisher(publisher)))

    def finish(self, bundle_id: str, publisher: Grant) -> BundleEntry:
        """Take in."""
        return self._taken(self._offers.finish(_bundle(bundle_id), self._vet, _publisher(publisher)))

    def withdraw(self, bundle_id: str, publisher: Grant) -> None:
        """End."""
        self._offers.withdraw(_bundle(bundle_id), _publisher(publisher))


def _publisher(grant: Grant) -> Publisher:
    return Publisher(grant.id, grant.name, grant.sees)


def _entry(blob: Partial) -> BlobEntry:
    return BlobEntry(blob.digest.hex, blob.size, blob.offset)


def _digests(offer: str, digest: str) -> tuple[Digest, Digest]:
    try:
        return Digest(offer), Digest(digest)
    except FormatError:  # answered as a blob that nobody expects
        raise BlobUnknown(f"no offer of this token expects a blob {digest[:80]}", digest=digest[:80]) from None


def _bundle(bundle_id: str) -> Digest:
    try:
        return Digest(bundle_id)
    except FormatError:
        raise BundleUnknown(f"{bundle_id[:80]!r} is not a bundle id") from None
