"""Offers: large bundles that arrive blob by blob, judged by their head before a byte of a blob is taken."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sandseal_host.errors import (
    BlobUnknown,
    BundleUnknown,
    ModelError,
    OfferIncomplete,
    PluginError,
    StoreError,
)
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.files import disk_errors
from sandseal_host.registry.intake import Vet
from sandseal_host.registry.offer import Offer
from sandseal_host.registry.offer_limits import OfferLimits
from sandseal_host.registry.offer_source import Adopting, OfferHead, OfferSource
from sandseal_host.registry.partial import Partial
from sandseal_host.registry.pending import Pending
from sandseal_host.registry.registry import Registry
from sandseal_signing.bundle import Head
from sandseal_signing.digest import Digest, Readable
from sandseal_signing.errors import FormatError, IntegrityError, TrustError
from sandseal_signing.names import MANIFEST
from sandseal_signing.trust import TrustPolicy


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who offers.

    Args:
        id: the token's, which no other has.
        name: the token's name, for the journal and for what waits for signatures.
        sees: whether the token may know of a model of this name.
    """

    id: str
    name: str
    sees: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class OfferStatistics:
    """How many offers are open, their size in bytes, and how many of these are still to come."""

    offers: int
    bytes: int
    outstanding: int


class Offers:
    """The open offers; thread-safe. A token knows only of its own.

    Args:
        registry: makes all checks, and takes in what is complete.
        store: where accepted bundles' blobs are.
        policy: returns the trust policy in force.
        folder: where offers are kept, on the store's own file system; made when absent.
        limits: what they may take.

    Raises:
        StoreError: the folder cannot be used.
    """

    def __init__(
        self, registry: Registry, store: BlobStore, policy: Callable[[], TrustPolicy], folder: Path, limits: OfferLimits
    ) -> None:
        self._registry, self._store, self._policy = registry, store, policy
        self._folder, self._limits = folder, limits
        self._guard = threading.Lock()
        self._offers: dict[tuple[str, Digest], Offer] = {}
        with disk_errors(folder / "offers", "keep offers"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            left = sorted(folder.iterdir())
        for path in left:
            self._restore(path)
        self.expire()

    def make(self, data: bytes, by: Publisher) -> Offer:
        """Judge a bundle by its head, steps 1 to 10, and expect the blobs that the host lacks.

        The same bundle offered again by the same token is the same offer, with what has arrived of it.

        Args:
            data: the front of a .seal file, up to and with bundle.json.

        Raises:
            SigningError, VersionStale, QuotaExceeded: as `Registry.look`.
            QuotaExceeded, TooLarge, StoreError: it may not have the room, or there is none.
        """
        source = OfferSource(OfferHead.parse(data), {}, self._store)
        head = self._registry.look(source, by.name)
        key = (_mark(by), head.verified.id)
        size = sum(resource.size for resource in head.verified.statement.resources)
        self._limits.check_bundle(size)
        needed = self._needed(head, by)
        self.expire()
        with self._guard:
            offer = self._offers.get(key)
            self._require_room(key, sum(needed.values()))
            if offer is None:
                offer = Offer(self._folder / f"{key[0]}.{key[1]}", data, datetime.now(UTC))
                self._offers[key] = offer
            else:
                offer.renew(data)
            offer.require(needed)
        for blob in offer.partials.values():
            blob.settle()
        return offer

    def blob(self, bundle_id: Digest, digest: Digest, by: Publisher) -> Partial:
        """A blob that is on its way in; requests that are sending it end here, so that its offset holds.

        Raises:
            BlobUnknown: no offer of this token expects it; nothing is said about other offers or the store.
        """
        with self._guard:
            offer = self._offers.get((_mark(by), bundle_id))
        if offer is None or offer.began + self._limits.life <= datetime.now(UTC) or digest not in offer.partials:
            raise BlobUnknown(f"no offer of this token expects a blob {digest}", digest=digest.hex)
        blob = offer.partials[digest]
        blob.settle()
        return blob

    def write(self, bundle_id: Digest, digest: Digest, at: int, stream: Readable, by: Publisher) -> Partial:
        """Append to a blob; see `Partial.write`.

        Raises:
            BlobUnknown: see `blob`.
        """
        blob = self.blob(bundle_id, digest, by)
        blob.write(at, stream)
        return blob

    def finish(self, bundle_id: Digest, vet: Vet, by: Publisher) -> Accepted | Pending:
        """Make all checks of an upload on what has arrived, and take it in; the offer then ends.

        Where a blob is damaged, that blob alone is expected again. An offer ends as well when nothing that could be
        sent would change the refusal.

        Raises:
            BundleUnknown: this token has no such offer.
            OfferIncomplete: blobs are missing.
            NotReady: it is being finished already.
            SandsealError: as `Registry.take`.
        """
        offer = self._find(bundle_id, by)
        with offer.finishing():
            if missing := offer.missing:
                raise OfferIncomplete(
                    f"{len(missing)} blobs are not complete", missing=[blob.digest.hex for blob in missing]
                )
            try:
                taken = self._take(offer, vet, by)
            except IntegrityError as error:
                offer.distrust(error)
                raise
            except (FormatError, TrustError, ModelError, PluginError):
                self._end(offer)
                raise
            self._end(offer)
        return taken

    def withdraw(self, bundle_id: Digest, by: Publisher) -> None:
        """Give an offer up.

        Raises:
            BundleUnknown: this token has no such offer.
            NotReady: it is being finished.
        """
        offer = self._find(bundle_id, by)
        with offer.finishing():
            self._end(offer)

    def expire(self) -> None:
        """Delete the offers whose time is over."""
        before = datetime.now(UTC) - self._limits.life
        with self._guard:
            over = [offer for offer in self._offers.values() if offer.began <= before and not offer.busy]
        for offer in over:
            self._end(offer)

    def statistics(self) -> OfferStatistics:
        """Counts as of now."""
        with self._guard:
            offers = list(self._offers.values())
        return OfferStatistics(
            len(offers), sum(offer.size for offer in offers), sum(offer.outstanding for offer in offers)
        )

    def _take(self, offer: Offer, vet: Vet, by: Publisher) -> Accepted | Pending:
        partials = offer.partials
        source = OfferSource(offer.head, partials, self._store)
        into = partial(Adopting, partials=partials)
        return self._registry.take(source, vet, by.name, into=into, threads=self._limits.threads)

    def _needed(self, head: Head, by: Publisher) -> dict[Digest, int]:
        """The sizes of the blobs that this publisher must send."""
        rule = head.verdict.rule
        policy = self._policy()

        def spared(name: str) -> bool:
            covering = policy.rule_for(name)
            return self._limits.share or (by.sees(name) and covering is not None and covering[0] == rule)

        others = [resource for resource in head.verified.statement.resources if resource.name != MANIFEST]
        sizes = {resource.digest: resource.size for resource in others}
        shared = self._registry.shared(sizes.keys(), spared)
        return {digest: size for digest, size in sizes.items() if digest not in shared}

    def _require_room(self, key: tuple[str, Digest], size: int) -> None:
        """Check that this offer, when it needs blobs of this size together, has the room; under the guard."""
        others = {other: offer for other, offer in self._offers.items() if other != key}
        self._limits.check_share([offer for (mark, _), offer in others.items() if mark == key[0]], size)
        known = self._offers.get(key)
        arrived = known.size - known.outstanding if known else 0
        promised = sum(offer.outstanding for offer in others.values())
        self._limits.check_disk(self._folder, promised, size - arrived)

    def _find(self, bundle_id: Digest, by: Publisher) -> Offer:
        with self._guard:
            offer = self._offers.get((_mark(by), bundle_id))
        if offer is None:
            raise BundleUnknown(f"no offer of this token is for bundle {bundle_id}", bundle=bundle_id.hex)
        return offer

    def _restore(self, path: Path) -> None:
        try:
            mark, _, bundle = path.name.partition(".")
            self._offers[mark, Digest(bundle)] = Offer.restore(path)
        except (StoreError, FormatError):  # half made when the host went down
            shutil.rmtree(path, ignore_errors=True)

    def _end(self, offer: Offer) -> None:
        with self._guard:
            self._offers = {key: other for key, other in self._offers.items() if other is not offer}
        offer.remove()


def _mark(by: Publisher) -> str:
    """What stands for a token in folder names, which show no token's id."""
    return Digest.of(by.id.encode()).hex[:32]
