"""One offer: a bundle that was judged by its head, and whose blobs arrive one by one."""

import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sandseal_host.errors import NotReady, StoreError
from sandseal_host.registry.files import disk_errors, replace_private
from sandseal_host.registry.offer_source import OfferHead
from sandseal_host.registry.partial import Partial
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import parse_signatures
from sandseal_signing.errors import IntegrityError, SandsealError
from sandseal_signing.names import MANIFEST
from sandseal_signing.statement import Statement, parse_statement

_HEAD = "head.seal"


class Offer:
    """A folder with an offer's head and what arrived of its blobs; it survives a restart of the host.

    Args:
        folder: made when absent.
        head: what was offered, judged by whoever calls.
        began: when it was first offered.

    Raises:
        StoreError: the disk fails.
    """

    def __init__(self, folder: Path, head: bytes, began: datetime) -> None:
        self._folder = folder
        self.began = began
        self.partials: Mapping[Digest, Partial] = {}
        self._finishing = threading.Lock()
        with disk_errors(folder, "keep an offer"):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.renew(head)

    @classmethod
    def restore(cls, folder: Path) -> "Offer":
        """An offer that an earlier run of the host left; what it holds is judged again when it is finished.

        Raises:
            StoreError: there is no whole offer in the folder.
        """
        try:
            head = folder / _HEAD
            began = datetime.fromtimestamp(head.stat().st_mtime, UTC)
            offer = cls(folder, head.read_bytes(), began)
            offer.require({Digest(path.name) for path in folder.iterdir() if path.name != _HEAD})
        except (OSError, SandsealError) as error:
            raise StoreError(f"{folder} holds no offer that can go on: {error}") from None
        return offer

    @property
    def statement(self) -> Statement:
        """The bundle's, as signed."""
        return self._statement

    @property
    def head(self) -> OfferHead:
        """What was offered, from the disk."""
        with disk_errors(self._folder, "read an offer"):
            return OfferHead.parse((self._folder / _HEAD).read_bytes())

    @property
    def sizes(self) -> Mapping[Digest, int]:
        """The bytes of every blob that is not bundle.json."""
        return {resource.digest: resource.size for resource in self._statement.resources if resource.name != MANIFEST}

    @property
    def size(self) -> int:
        """How many bytes this offer will have when everything has arrived."""
        return sum(partial.size for partial in self.partials.values())

    @property
    def missing(self) -> tuple[Partial, ...]:
        """The blobs of which bytes are missing, largest first, so that a long one does not come last and alone."""
        short = (partial for partial in self.partials.values() if partial.offset < partial.size)
        return tuple(sorted(short, key=lambda partial: (-partial.size, partial.digest)))

    @property
    def outstanding(self) -> int:
        """How many bytes are still to come."""
        return sum(partial.size - partial.offset for partial in self.partials.values())

    @property
    def busy(self) -> bool:
        """Whether it is being finished."""
        return self._finishing.locked()

    def renew(self, head: bytes) -> None:
        """Keep a head, which may have more signatures than the one before."""
        envelopes = parse_signatures(OfferHead.parse(head).signatures)
        self.id = Digest.of(envelopes[0].payload)
        self._statement = parse_statement(envelopes[0].payload)
        with disk_errors(self._folder, "keep an offer"):
            replace_private(self._folder / _HEAD, head)
            os.utime(self._folder / _HEAD, (self.began.timestamp(),) * 2)

    def require(self, digests: Iterable[Digest]) -> None:
        """Expect these blobs; what arrived of them stays."""
        sizes = self.sizes
        fresh = [digest for digest in digests if digest in sizes and digest not in self.partials]
        added = {digest: Partial(self._folder / digest.hex, digest, sizes[digest]) for digest in fresh}
        self.partials = {**self.partials, **added}  # another thread may be walking through the old one

    def distrust(self, error: IntegrityError) -> None:
        """Expect the blob that was found damaged or missing once more."""
        known = self._statement.by_name
        resource = known.get(error.data.get("name", "")) or next(
            (found for found in known.values() if found.digest.hex == error.data.get("digest")), None
        )
        if resource is not None and resource.name != MANIFEST:
            self.require((resource.digest,))
            self.partials[resource.digest].clear()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Nobody else finishes it or writes to it meanwhile.

        Raises:
            NotReady: somebody does.
        """
        if not self._finishing.acquire(blocking=False):
            raise NotReady("the offer is being finished", hint="ask again when that has ended", retry_after=2.0)
        try:
            for partial in self.partials.values():
                partial.freeze()
            yield
        finally:
            for partial in self.partials.values():
                partial.freeze(False)
            self._finishing.release()

    def remove(self) -> None:
        """Delete all that arrived; hard links to it stay."""
        for partial in self.partials.values():
            partial.freeze()
        shutil.rmtree(self._folder, ignore_errors=True)
