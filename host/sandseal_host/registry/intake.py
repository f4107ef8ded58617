"""Taking bundles in: uploads, and the signatures that arrive later; steps 1 to 16 of signing/README.md."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy.orm import Session

from sandseal_host.errors import BundleUnknown, ModelError, PluginError, VersionStale
from sandseal_host.registry.acceptance import Accepted, Signer
from sandseal_host.registry.blobs import BlobStore, Deposit
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.journal import Journal
from sandseal_host.registry.load_view import Binding, Bound, LoadView, LoadViews
from sandseal_host.registry.pending import Pending, PendingBundles
from sandseal_host.registry.permits import Permits
from sandseal_host.registry.sources import Stored
from sandseal_signing.bundle import (
    Bundle,
    Head,
    InMemory,
    Sink,
    Source,
    VerifiedStatement,
    open_bundle,
    open_head,
    verify_statement,
)
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import DigestMismatch, IntegrityError, PolicyRefused, StatementInvalid, TrustError
from sandseal_signing.logentry import Detail, Kind
from sandseal_signing.manifest import Manifest, parse_manifest
from sandseal_signing.names import MANIFEST
from sandseal_signing.statement import Statement
from sandseal_signing.trust import TrustedKey, TrustPolicy
from sandseal_signing.verdict import Moment, Reason, State, Verdict, judge

_DAMAGED = "the host's own copy is damaged: push the same .seal file again, which writes it anew"

Vet = Callable[[Bound], None]
"""Looks inside a verified bundle, whose files are the stored bytes; raises to refuse it."""

Into = Callable[[Deposit], Sink]
"""How an upload's files get into its deposit."""


def written(deposit: Deposit) -> Sink:
    """By writing them there."""
    return deposit


class Intake:
    """The way of a bundle into the registry; thread-safe.

    Args:
        store: where contents are.
        catalog: the accepted bundles.
        pending: those that wait for signatures.
        permits: let bundles in below the newest version.
        policy: returns the trust policy in force.
        journal: is told what was accepted, and what waits.
        patience: how long a bundle waits for signatures.
        views: makes room for weights that are too many to be held as bytes; None: nothing is.
    """

    def __init__(
        self,
        store: BlobStore,
        catalog: Catalog,
        pending: PendingBundles,
        permits: Permits,
        policy: Callable[[], TrustPolicy],
        journal: Journal,
        patience: timedelta,
        views: LoadViews | None = None,
    ) -> None:
        self._store, self._catalog, self._pending, self._permits = store, catalog, pending, permits
        self._policy, self._journal, self._patience, self._views = policy, journal, patience, views

    def look(self, upload: Source, publisher: str) -> Head:
        """Steps 1 to 10 for a bundle that is about to be uploaded; the source's signatures are read twice."""
        bundle_id = verify_statement(upload.signatures(), self._policy()).id
        known = self._catalog.get(bundle_id)
        room = partial(self._require_room, publisher, bundle_id)
        with _stale_versions():
            return open_head(upload, self._policy(), self._moment(bundle_id, known), pending=None if known else room)

    def upload(
        self, upload: Source, vet: Vet, publisher: str, *, into: Into = written, threads: int = 1
    ) -> tuple[str, Accepted | Pending]:
        """Take in one upload; see `Registry.take`.

        Returns:
            `accepted`, `pending` or `repeated`, and what it became.
        """
        bundle_id = verify_statement(upload.signatures(), self._policy()).id
        known = self._catalog.get(bundle_id)
        try:
            with self._store.deposit(self._catalog.unused, rewrite=known is not None) as deposit:
                room = partial(self._require_room, publisher, bundle_id)
                moment = self._moment(bundle_id, known)
                self._open(upload, moment, into(deposit), None if known else room, threads=threads)  # steps 1 to 11
                if known is not None:
                    return "repeated", self._resign_all(known, upload.signatures())
                signatures = {**self._pending.signatures(bundle_id), **upload.signatures()}
                outcome = self._settle(bundle_id, signatures, vet, publisher)
                return "accepted" if isinstance(outcome, Accepted) else "pending", outcome
        except VersionStale:
            # The same bundle in another upload may have been quicker: a client that tried again too early.
            if twin := self._catalog.get(bundle_id):
                return "repeated", twin
            raise

    def sign(self, bundle_id: Digest, data: bytes, vet: Vet, publisher: str) -> Accepted | Pending:
        """Add one signature file to a bundle that is here; see `Registry.sign`."""
        file = Envelope.parse(data, "the signature file").file_name
        known = self._catalog.get(bundle_id)
        if known is not None:
            return self._resign(known, file, data)
        pending = self._pending.get(bundle_id)
        if pending is None:
            raise BundleUnknown(f"no bundle {bundle_id} is accepted or pending", bundle=bundle_id.hex)
        verified, _ = self._counting(bundle_id, file, data)
        with self._store.deposit(self._catalog.unused) as deposit:
            deposit.hold(resource.digest for resource in verified.statement.resources)
            signatures = {**self._pending.signatures(bundle_id), file: data}
            try:
                return self._settle(bundle_id, signatures, vet, publisher)
            except (ModelError, PluginError):  # no signature will ever change that
                self._pending.remove(bundle_id)
                raise

    def pending_now(self, pending: Pending) -> Pending:
        """A pending bundle with what the policy would say if its last signature had just come."""
        try:
            verdict = self._judge(pending.id, self._pending.signatures(pending.id)).verdict
        except (TrustError, IntegrityError) as error:
            reasons = (Reason("signer", False, error.message),)
            verdict = replace(pending.verdict, state=State.REFUSED, holders=(), reasons=reasons)
        return replace(pending, verdict=verdict)

    def open_stored(self, bundle_id: Digest, signatures: Mapping[str, bytes], accepted: Accepted | None) -> Bound:
        """Verify a bundle over its stored bytes; see `Registry.open`."""
        view = None
        try:
            view = self._view(bundle_id, signatures)
            stored, moment = Stored(self._store, signatures), self._moment(bundle_id, accepted)
            if view is None:
                bundle = self._open(stored, moment, InMemory())
            else:
                binding = Binding(stored, view)
                bundle = self._open(binding, moment, binding)
            if bundle.id != bundle_id:
                raise DigestMismatch(f"the catalog has the signatures of bundle {bundle.id} for {bundle_id}")
        except BaseException as error:
            if view is not None:
                view.close()
            if isinstance(error, IntegrityError):
                error.hint = _DAMAGED
            raise
        return Bound.of(bundle, view)

    def _view(self, bundle_id: Digest, signatures: Mapping[str, bytes]) -> LoadView | None:
        """Room for the weights that are too many to be held as bytes; which ones, only a trusted signer may say."""
        if self._views is None:
            return None
        statement = verify_statement(signatures, self._policy()).statement
        manifest = self.manifest(statement)
        weights = manifest.model.weights
        if any(name in weights for stage in manifest.stages for name in (stage.plugin, *stage.assets)):
            return None  # plugins get bytes
        return self._views.open(bundle_id, [statement.by_name[name] for name in weights])

    def manifest(self, statement: Statement) -> Manifest:
        """The bundle.json of a bundle whose files are stored, hashed again."""
        resource = statement.by_name[MANIFEST]
        source = Stored(self._store, {})
        return parse_manifest(InMemory().write(resource, resource.check(source.read(resource))))

    def _settle(
        self, bundle_id: Digest, signatures: Mapping[str, bytes], vet: Vet, publisher: str
    ) -> Accepted | Pending:
        """Judge a bundle whose files are stored by all its signatures: keep it, or look inside and accept it."""
        judged = self._judge(bundle_id, signatures)
        verified, manifest, moment = judged.verified, judged.manifest, judged.moment
        if judged.verdict.state is State.PENDING:
            size = sum(resource.size for resource in verified.statement.resources)
            fresh = Pending(
                id=bundle_id,
                name=manifest.name,
                version=manifest.version,
                release=manifest.release,
                publisher=publisher,
                size=size,
                uploaded_at=moment.now,
                expires_at=moment.now + self._patience,
                signers=_signers(verified),
                verdict=judged.verdict,
            )
            return self._keep(fresh, verified.statement, signatures)
        with self.open_stored(bundle_id, signatures, None) as bundle:
            vet(bundle)  # steps 12 to 14
            bundle.check()
            accepted = Accepted.of(bundle, datetime.now(UTC))
            permit = self._permits.valid(bundle_id, manifest.name) if moment.permit else None
            noted = partial(self._note_accepted, publisher, accepted, permit)
            self._catalog.add(bundle, accepted, noted, permit)  # 15 and 16
        return accepted

    def _judge(self, bundle_id: Digest, signatures: Mapping[str, bytes]) -> "_Judged":
        """Judge a bundle that is stored and not accepted."""
        policy = self._policy()
        verified = verify_statement(signatures, policy)
        manifest = self.manifest(verified.statement)
        moment = self._fresh_moment(bundle_id, manifest)
        verdict = judge(bundle_id, verified.statement, verified.signers, manifest, policy, moment)
        return _Judged(verified, manifest, moment, verdict)

    def _keep(self, fresh: Pending, statement: Statement, signatures: Mapping[str, bytes]) -> Pending:
        """Keep a pending bundle; one that is there already keeps its publisher and its time."""
        known = self._pending.get(fresh.id)
        if known is not None:
            fresh = replace(
                fresh, publisher=known.publisher, uploaded_at=known.uploaded_at, expires_at=known.expires_at
            )
        self._pending.put(fresh, statement, signatures, partial(self._note_pending, fresh))
        return fresh

    def _require_room(self, publisher: str, bundle_id: Digest, statement: Statement) -> None:
        self._pending.require_room(publisher, bundle_id, sum(resource.size for resource in statement.resources))

    def _resign_all(self, accepted: Accepted, signatures: Mapping[str, bytes]) -> Accepted:
        """Add those of the signatures that count; others change nothing."""
        kept = self._catalog.signatures(accepted.id)
        for file, data in signatures.items():
            if file not in kept:
                try:
                    accepted = self._resign(accepted, file, data)
                except TrustError:
                    continue
        return accepted

    def _resign(self, accepted: Accepted, file: str, data: bytes) -> Accepted:
        _, key = self._counting(accepted.id, file, data)
        self._catalog.resign(accepted.id, file, data, _signer(key))
        return self._catalog.get(accepted.id) or accepted

    def _counting(self, bundle_id: Digest, file: str, data: bytes) -> tuple[VerifiedStatement, TrustedKey]:
        """Check that a signature is over this bundle, and would count now under the rule that covers it.

        A key's end is judged here, when its signature arrives: later it would be judged at the acceptance, and a key
        that has ended could still speak for what was accepted before.

        Raises:
            StatementInvalid: it is over another bundle.
            TrustError: it counts for nothing.
        """
        policy = self._policy()
        verified = verify_statement({file: data}, policy)
        if verified.id != bundle_id:
            raise StatementInvalid(
                f"this signature is over bundle {verified.id}, not over {bundle_id}", hint="sign the same .seal file"
            )
        manifest = self.manifest(verified.statement)
        verdict = judge(bundle_id, verified.statement, verified.signers, manifest, policy, Moment.current())
        against = [
            reason.detail for reason in verdict.reasons if reason.check in ("rule", "signer") and not reason.holds
        ]
        if against:
            raise PolicyRefused(f"the signature does not count: {'; '.join(against)}", verdict=verdict.as_data())
        return verified, verified.signers[0]

    def _open(
        self,
        source: Source,
        moment: Callable[[Manifest], Moment],
        sink: Sink,
        pending: Callable[[Statement], None] | None = None,
        *,
        threads: int = 1,
    ) -> Bundle:
        with _stale_versions():
            return open_bundle(source, self._policy(), moment, sink, threads=threads, pending=pending)

    def _moment(self, bundle_id: Digest, accepted: Accepted | None) -> Callable[[Manifest], Moment]:
        """An accepted bundle is judged as at a load, another one against the versions accepted so far."""
        if accepted is not None:
            return lambda _: Moment.current(accepted_at=accepted.accepted_at)
        return partial(self._fresh_moment, bundle_id)

    def _fresh_moment(self, bundle_id: Digest, manifest: Manifest) -> Moment:
        """The present moment for a bundle that was not accepted, with a permit where its version needs one."""
        newest = self._catalog.newest(manifest.name)
        stale = newest is not None and manifest.version <= newest
        permit = self._permits.valid(bundle_id, manifest.name) if stale else None
        return Moment.current(newest=newest, permit=permit)

    def _note_accepted(self, publisher: str, accepted: Accepted, permit: Digest | None, session: Session) -> None:
        detail = Detail(
            rule=accepted.rule,
            threshold=accepted.threshold,
            holders=accepted.holders,
            keys=tuple(Digest(signer.fingerprint) for signer in accepted.signers),
            permit=permit,
        )
        self._journal.record(Kind.ACCEPT, publisher, accepted.subject, detail, session=session)

    def _note_pending(self, pending: Pending, session: Session) -> None:
        verdict = pending.verdict
        detail = Detail(
            rule=verdict.rule,
            threshold=verdict.threshold,
            holders=verdict.holders,
            keys=tuple(Digest(signer.fingerprint) for signer in pending.signers),
        )
        self._journal.record(Kind.PENDING, pending.publisher, pending.subject, detail, session=session)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A bundle and what the policy says of it.

    Args:
        moment: the one that it was judged at.
    """

    verified: VerifiedStatement
    manifest: Manifest
    moment: Moment
    verdict: Verdict


@contextmanager
def _stale_versions() -> Iterator[None]:
    """Say that the version is stale where that is all that the policy has against a bundle."""
    try:
        yield
    except PolicyRefused as refused:
        against = {reason["check"] for reason in refused.data["verdict"]["reasons"] if not reason["holds"]}
        # A signer too many hurts nobody while the threshold is met.
        if against - {"signer"} == {"version"}:
            raise VersionStale(refused.message, **refused.data) from None
        raise


def _signers(verified: VerifiedStatement) -> tuple[Signer, ...]:
    return tuple(map(_signer, verified.signers))


def _signer(key: TrustedKey) -> Signer:
    return Signer(key.name, key.holder, key.public.fingerprint)
