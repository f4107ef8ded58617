"""The registry: takes uploads in, verifies again what it hands out, forgets nothing that guards against rollback."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sandseal_host.errors import BundleUnknown, ModelUnknown, VersionStale
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.sources import Stored, Upload
from sandseal_signing.bundle import Bundle, InMemory, Sink, Source, open_bundle, verify_statement
from sandseal_signing.digest import Digest, Readable
from sandseal_signing.errors import DigestMismatch, IntegrityError, PolicyRefused, SandsealError
from sandseal_signing.trust import TrustPolicy
from sandseal_signing.verdict import Moment

_DAMAGED = "the host's own copy is damaged: push the same .seal file again, which writes it anew"


@dataclass(frozen=True, slots=True)
class RegistryStatistics:
    """What the registry holds, and how uploads ended since the start.

    Args:
        bytes: size of all blobs.
        uploads: counts by outcome: `accepted`, `repeated`, the code of the error that refused it, or `broken`.
    """

    bundles: int
    blobs: int
    bytes: int
    uploads: Mapping[str, int]


class Registry:
    """The accepted bundles; thread-safe, and everything blocks, so call it from threads.

    At the start it deletes the blobs that a crash left without a bundle.

    Args:
        store: where contents are; tied to the catalog from now on.
        catalog: where everything else is.
        policy: returns the trust policy in force; asked anew for every verification.

    Raises:
        StoreError: the store or the catalog cannot be used, or they do not belong together.
    """

    def __init__(self, store: BlobStore, catalog: Catalog, policy: Callable[[], TrustPolicy]) -> None:
        self._store = store
        self._catalog = catalog
        self._policy = policy
        self._guard = threading.Lock()
        self._uploads: Counter[str] = Counter()
        store.claim(catalog.identity)
        store.sweep(catalog.unused)

    def accept(self, stream: Readable, vet: Callable[[Bundle], None]) -> Accepted:
        """Take in one .seal stream: all of it becomes visible at once, or nothing of it stays.

        A bundle that is accepted already is answered with its acceptance and not vetted again; its files are checked
        as always and written anew, so pushing it again repairs a damaged store.

        Args:
            stream: read once from front to back; what it raises goes through.
            vet: looks inside the verified bundle, whose files are the stored bytes; raises to refuse it.

        Raises:
            SigningError: see `open_bundle`.
            VersionStale: this version or a newer one was accepted before, or by another upload meanwhile.
            StoreError: disk or database.
        """
        try:
            outcome, accepted = self._accept(stream, vet)
        except BaseException as error:
            self._count(error.code if isinstance(error, SandsealError) else "broken")
            raise
        self._count(outcome)
        return accepted

    def open(self, bundle_id: Digest) -> Bundle:
        """Verify an accepted bundle again, over its stored bytes and under today's policy.

        Raises:
            BundleUnknown: there is none.
            SigningError: it is not what was accepted, or no longer trusted.
            StoreError: disk or database.
        """
        accepted = self.get(bundle_id)
        source = Stored(self._store, self._catalog.signatures(bundle_id))
        return self._open_stored(source, bundle_id, accepted)

    def list(self) -> tuple[Accepted, ...]:
        """Every accepted bundle, by name and version."""
        return self._catalog.all()

    def get(self, bundle_id: Digest) -> Accepted:
        """The acceptance of a bundle.

        Raises:
            BundleUnknown: there is none.
        """
        accepted = self._catalog.get(bundle_id)
        if accepted is None:
            raise BundleUnknown(f"no bundle {bundle_id} was accepted", bundle=bundle_id.hex)
        return accepted

    def find(self, name: str, version: int | None = None) -> Accepted:
        """The acceptance of a version; of the newest one that is there when none is given.

        Raises:
            ModelUnknown: there is none.
        """
        accepted = self._catalog.find(name, version)
        if accepted is None:
            wanted = "" if version is None else f"version {version} of "
            raise ModelUnknown(f"no bundle for {wanted}{name!r} was accepted", name=name)
        return accepted

    def delete(self, bundle_id: Digest) -> None:
        """Forget a bundle, the intention to serve it, and the blobs that no other bundle uses.

        Its version stays used: neither it nor an older one is ever accepted again under this name.

        Raises:
            BundleUnknown: there is none.
        """
        self._store.sweep(self._catalog.unused, self._catalog.remove(bundle_id))

    def intend(self, name: str, version: int | None) -> None:
        """Remember which version should be live under a name, for the next start; None for none.

        Raises:
            ModelUnknown: that version is not there.
        """
        self._catalog.intend(name, version)

    def intended(self) -> Mapping[str, int]:
        """The version that should be live, by name."""
        return self._catalog.intended()

    def statistics(self) -> RegistryStatistics:
        """Counts as of now."""
        blobs = self._store.statistics()
        with self._guard:
            uploads = dict(self._uploads)
        return RegistryStatistics(self._catalog.count(), blobs.blobs, blobs.bytes, uploads)

    def _accept(self, stream: Readable, vet: Callable[[Bundle], None]) -> tuple[str, Accepted]:
        upload = Upload(stream)
        bundle_id = verify_statement(upload.signatures(), self._policy()).id
        known = self._catalog.get(bundle_id)
        try:
            with self._store.deposit(self._catalog.unused, rewrite=known is not None) as deposit:
                self._open(upload, known, deposit)  # steps 1 to 11 of signing/README.md
                if known is not None:
                    return "repeated", known
                bundle = self._open_stored(Stored(self._store, upload.signatures()), bundle_id, None)
                vet(bundle)  # steps 12 to 14
                accepted = Accepted.of(bundle, datetime.now(UTC))
                self._catalog.add(bundle, accepted)  # steps 15 and 16
                return "accepted", accepted
        except VersionStale:
            # The same bundle in another upload may have been quicker: a client that tried again too early.
            if twin := self._catalog.get(bundle_id):
                return "repeated", twin
            raise

    def _open_stored(self, source: Stored, bundle_id: Digest, accepted: Accepted | None) -> Bundle:
        try:
            bundle = self._open(source, accepted, InMemory())
            if bundle.id != bundle_id:
                raise DigestMismatch(f"the catalog has the signatures of bundle {bundle.id} for {bundle_id}")
        except IntegrityError as error:
            error.hint = _DAMAGED
            raise
        return bundle

    def _open(self, source: Source, accepted: Accepted | None, sink: Sink) -> Bundle:
        """Verify; an accepted bundle is judged as at a load, another one against the versions accepted so far."""
        try:
            return open_bundle(
                source,
                self._policy(),
                lambda manifest: (
                    Moment.current(accepted_at=accepted.accepted_at)
                    if accepted
                    else Moment.current(newest=self._catalog.newest(manifest.name))
                ),
                sink,
            )
        except PolicyRefused as refused:
            against = {reason["check"] for reason in refused.data["verdict"]["reasons"] if not reason["holds"]}
            if against - {"signer"} == {"version"}:  # a signer too many hurts nobody while the threshold is met
                raise VersionStale(refused.message, **refused.data) from None
            raise

    def _count(self, outcome: str) -> None:
        with self._guard:
            self._uploads[outcome] += 1
