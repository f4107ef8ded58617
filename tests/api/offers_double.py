"""Offers in memory: a head is any bytes, its bundle has two blobs, and what is finished goes to the bundles' double."""

import io
from datetime import UTC, datetime
from typing import Any

from sandseal_host.api.grant import Grant
from sandseal_host.api.offer_port import BlobEntry, OfferEntry
from sandseal_host.api.ports import BundleEntry
from sandseal_host.errors import BlobUnknown, BundleUnknown, OffsetWrong
from sandseal_signing.digest import Digest, Readable, read_chunks

CONTENTS = (b"large " * 20_000, b"small")


class OffersDouble:
    """Keeps what arrives by token and head."""

    def __init__(self, bundles: Any) -> None:
        self.bundles = bundles
        self.arrived: dict[tuple[str, str], dict[str, bytearray]] = {}
        self.refuse: Exception | None = None

    def offer(self, head: bytes, publisher: Grant) -> OfferEntry:
        if self.refuse:
            raise self.refuse
        offer = Digest.of(head).hex
        blobs = self.arrived.setdefault((publisher.name, offer), {Digest.of(c).hex: bytearray() for c in CONTENTS})
        missing = tuple(self.blob(offer, digest, publisher) for digest in blobs)
        return OfferEntry(offer, missing, datetime(2026, 1, 3, tzinfo=UTC))

    def blob(self, offer: str, digest: str, publisher: Grant) -> BlobEntry:
        blobs = self.arrived.get((publisher.name, offer), {})
        if digest not in blobs:
            raise BlobUnknown(f"no offer of this token expects a blob {digest[:80]}")
        size = next(len(content) for content in CONTENTS if Digest.of(content).hex == digest)
        return BlobEntry(digest, size, len(blobs[digest]))

    def write(self, offer: str, digest: str, at: int, stream: Readable, publisher: Grant) -> BlobEntry:
        there = self.blob(offer, digest, publisher).offset
        if at != there:
            raise OffsetWrong(f"it goes on at byte {there}", offset=there)
        for chunk in read_chunks(stream):
            self.arrived[publisher.name, offer][digest] += chunk
        return self.blob(offer, digest, publisher)

    def finish(self, bundle_id: str, publisher: Grant) -> BundleEntry:
        if self.arrived.pop((publisher.name, bundle_id), None) is None:
            raise BundleUnknown(f"no offer for {bundle_id}")
        return self.bundles.accept(io.BytesIO(b"SEAL:acme.large:END"), publisher)

    def withdraw(self, bundle_id: str, publisher: Grant) -> None:
        if self.arrived.pop((publisher.name, bundle_id), None) is None:
            raise BundleUnknown(f"no offer for {bundle_id}")
