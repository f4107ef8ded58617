"""The registry: takes uploads in, verifies again what it hands out, forgets nothing that guards against rollback."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sandseal_host.errors import BundleUnknown, ModelUnknown
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.intake import Intake, Into, Vet, written
from sandseal_host.registry.journal import Journal, LoggedJournal
from sandseal_host.registry.load_view import Bound, LoadViews
from sandseal_host.registry.pending import Pending, PendingBundles
from sandseal_host.registry.permits import Permits
from sandseal_host.registry.sources import Upload
from sandseal_host.registry.standing import Standing
from sandseal_signing.bundle import Head, Source
from sandseal_signing.digest import Digest, Readable
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import SandsealError
from sandseal_signing.logentry import Detail, Kind, Subject, sentence
from sandseal_signing.statement import parse_statement
from sandseal_signing.trust import Revoked, TrustPolicy
from sandseal_signing.verdict import Verdict

_Taken = TypeVar("_Taken")


@dataclass(frozen=True, slots=True)
class RegistryStatistics:
    """What the registry holds, and how uploads ended since the start.

    Args:
        bytes: size of all blobs.
        uploads: counts by outcome: `accepted`, `pending`, `signed`, `repeated`, `offered`, the code of the
            error that refused it, or `broken`.
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
        journal: is told of every upload; log lines when absent.
        quota: bytes that one publisher's pending bundles may have together.
        patience: how long a bundle waits for the signatures that it lacks.
        views: where weights lie that are too many to be loaded as bytes; all are bytes when absent.

    Raises:
        StoreError: the store or the catalog cannot be used, or they do not belong together.
    """

    def __init__(
        self,
        store: BlobStore,
        catalog: Catalog,
        policy: Callable[[], TrustPolicy],
        journal: Journal | None = None,
        *,
        quota: int = 4 << 30,
        patience: timedelta = timedelta(days=7),
        views: LoadViews | None = None,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._policy = policy
        self._journal = journal or LoggedJournal()
        self._pending = PendingBundles(catalog, quota)
        self.permits = Permits(catalog, policy)
        self._intake = Intake(store, catalog, self._pending, self.permits, policy, self._journal, patience, views)
        self._guard = threading.Lock()
        self._uploads: Counter[str] = Counter()
        store.claim(catalog.identity)
        self._pending.expire()
        store.sweep(catalog.unused)

    def accept(self, stream: Readable, vet: Vet, publisher: str = "unknown") -> Accepted | Pending:
        """Take in one .seal stream; see `take`.

        Args:
            stream: read once from front to back; what it raises goes through.
        """
        return self._counted(lambda: self._intake.upload(Upload(stream), vet, publisher), publisher)

    def look(self, upload: Source, publisher: str = "unknown") -> Head:
        """Make all the checks of an upload that need no file other than bundle.json.

        Args:
            upload: its signatures are asked for more than once.
            publisher: for the journal.

        Raises:
            SigningError, VersionStale, QuotaExceeded: as `take`.
        """
        return self._counted(lambda: ("offered", self._intake.look(upload, publisher)), publisher)

    def take(
        self, upload: Source, vet: Vet, publisher: str = "unknown", *, into: Into = written, threads: int = 1
    ) -> Accepted | Pending:
        """Take in an upload: all of it becomes visible at once, or nothing of it stays.

        A bundle that is accepted already is answered with its acceptance and not vetted again; its files are checked
        as always and written anew, so pushing it again repairs a damaged store. Signatures that it had not before are
        added. A bundle for which more holders must sign is kept, and not looked into before they have.

        Args:
            upload: what its files' chunks raise goes through; its signatures are asked for more than once.
            vet: looks inside the verified bundle, whose files are the stored bytes; raises to refuse it.
            publisher: who uploads: for the journal, and whose quota a pending bundle counts against.
            into: how files get into the store, when not by writing them.
            threads: how many files to hash at once; over 1 only where the upload can be read from several threads.

        Raises:
            SigningError: see `open_bundle`.
            VersionStale: this version or a newer one was accepted before, or by another upload meanwhile.
            QuotaExceeded: it would have to wait, and the publisher has too much waiting.
            StoreError: disk or database.
        """
        return self._counted(lambda: self._intake.upload(upload, vet, publisher, into=into, threads=threads), publisher)

    def shared(self, digests: Collection[Digest], sees: Callable[[str], bool]) -> frozenset[Digest]:
        """Those of the blobs that are stored and belong to an accepted model of a name that `sees` is true of."""
        users = self._catalog.names(digests)
        return frozenset(d for d, names in users.items() if any(map(sees, names)) and self._store.has(d))

    def sign(self, bundle_id: Digest, data: bytes, vet: Vet, publisher: str = "unknown") -> Accepted | Pending:
        """Add a signature to a pending bundle, which may complete it, or to an accepted one.

        Policy, version and revocations are judged again, now. Of two bundles for one version the first completed wins;
        what is refused for good then is no longer pending.

        Args:
            data: a signature file.
            vet: see `accept`.
            publisher: who sends it, for the journal.

        Raises:
            BundleUnknown: there is no such bundle.
            SigningError: the signature is malformed, over another bundle, or counts for nothing.
            VersionStale, StoreError: see `accept`.
        """

        def taking() -> tuple[str, Accepted | Pending]:
            return "signed", self._intake.sign(bundle_id, data, vet, publisher)

        return self._counted(taking, publisher)

    def pending(self) -> tuple[Pending, ...]:
        """Every bundle for which more holders must sign, by name and version, with what the policy says of it now."""
        return tuple(map(self._intake.pending_now, self._pending.all()))

    def waiting(self, bundle_id: Digest) -> Pending | None:
        """The pending bundle of this id, as in `pending`."""
        pending = self._pending.get(bundle_id)
        return self._intake.pending_now(pending) if pending else None

    def expire(self) -> None:
        """Delete the pending bundles whose time is over."""
        self._store.sweep(self._catalog.unused, self._pending.expire())

    def judge(self, bundle_id: Digest) -> Verdict:
        """What the policy says now of a bundle that is accepted or pending; its files are not read.

        Raises:
            BundleUnknown: there is none.
            TrustError: no signature on an accepted one is by a key that is enrolled now.
        """
        if accepted := self._catalog.get(bundle_id):
            return self.standing(accepted).verdict(self._policy(), datetime.now(UTC))
        if pending := self.waiting(bundle_id):
            return pending.verdict
        raise BundleUnknown(f"no bundle {bundle_id} is accepted or pending", bundle=bundle_id.hex)

    def standing(self, accepted: Accepted) -> Standing:
        """What stands behind an accepted bundle now.

        Raises:
            BundleUnknown: it was deleted meanwhile.
        """
        signatures = self._catalog.signatures(accepted.id)
        if not signatures:
            raise BundleUnknown(f"bundle {accepted.id} was deleted", bundle=accepted.id.hex)
        envelope = next(Envelope.parse(data, name) for name, data in signatures.items())
        manifest = self._intake.manifest(parse_statement(envelope.payload))
        return Standing(accepted.id, manifest, signatures, accepted.accepted_at)

    def open(self, bundle_id: Digest) -> Bound:
        """Verify an accepted bundle again, over its stored bytes and under today's policy; to be closed after use.

        Raises:
            BundleUnknown: there is none.
            SigningError: it is not what was accepted, or no longer trusted.
            StoreError: disk or database.
        """
        accepted = self.get(bundle_id)
        return self._intake.open_stored(bundle_id, self._catalog.signatures(bundle_id), accepted)

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
        """The acceptance of a version; of the one accepted last, or else the highest, when none is given.

        Raises:
            ModelUnknown: there is none.
        """
        accepted = self._catalog.find(name, version)
        if accepted is None:
            wanted = "" if version is None else f"version {version} of "
            raise ModelUnknown(f"no bundle for {wanted}{name!r} was accepted", name=name)
        return accepted

    def delete(self, bundle_id: Digest) -> None:
        """Forget an accepted or pending bundle, the intention to serve it, and the blobs that no other bundle uses.

        Its version stays used: neither it nor an older one is ever accepted again under this name.

        Raises:
            BundleUnknown: there is none.
        """
        files = self._pending.remove(bundle_id) or self._catalog.remove(bundle_id)
        self._store.sweep(self._catalog.unused, files)

    def intend(self, name: str, version: int, instead_of: Collection[int] = ()) -> None:
        """Remember for the next start that a version was put into service, and which others no longer are.

        Raises:
            ModelUnknown: that version is not there.
        """
        self._catalog.intend(name, version, instead_of)

    def dismiss(self, name: str, version: int | None = None) -> None:
        """Remember for the next start that a version, or every one of a name, was taken out of service by hand."""
        self._catalog.dismiss(name, version)

    def intended(self) -> Mapping[str, Mapping[int, int]]:
        """By name and version: the higher, the later it was put into service; 0 = it was taken out by hand."""
        return self._catalog.intended()

    def revoked(self, revoked: Revoked) -> Mapping[tuple[str, int], str]:
        """Which accepted versions these revocations forbid, by name and version, and why."""
        users = self._catalog.users(revoked.blobs)
        reasons: dict[tuple[str, int], str] = {}
        for accepted in self._catalog.all():
            if accepted.id in users:
                reasons[accepted.name, accepted.version] = f"file {users[accepted.id]!r} is revoked"
            elif why := accepted.why_revoked(revoked):
                reasons[accepted.name, accepted.version] = why
        return reasons

    def statistics(self) -> RegistryStatistics:
        """Counts as of now."""
        blobs = self._store.statistics()
        with self._guard:
            uploads = dict(self._uploads)
        return RegistryStatistics(self._catalog.count(), blobs.blobs, blobs.bytes, uploads)

    def _counted(self, taking: Callable[[], tuple[str, _Taken]], publisher: str) -> _Taken:
        """Run what takes something in; count how it ended, and note a refusal."""
        try:
            outcome, taken = taking()
        except SandsealError as error:
            self._count(error.code)
            detail = Detail(code=error.code, reason=sentence(error.message))
            self._journal.record(Kind.REJECT, publisher, Subject(), detail)
            raise
        except BaseException:
            self._count("broken")
            raise
        self._count(outcome)
        return taken

    def _count(self, outcome: str) -> None:
        with self._guard:
            self._uploads[outcome] += 1
