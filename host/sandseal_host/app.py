"""The host: the only place where the rooms are wired together."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sandseal_host.api.app import create_app
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.grant import Grant, Scope
from sandseal_host.api.ports import BundleEntry, HostState, LoggedEntry, ModelEntry, Signer, TokenEntry
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.trust_port import Withdrawn
from sandseal_host.errors import BundleUnknown, ModelUnknown, NotAuthenticated
from sandseal_host.integrity import IntegrityWatch
from sandseal_host.loader import Loader
from sandseal_host.observe.metrics import HostMetrics, Statistics
from sandseal_host.offer_desk import OfferDesk
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.keyring import Keyring
from sandseal_host.registry.load_view import Bound, LoadViews
from sandseal_host.registry.offer_limits import OfferLimits
from sandseal_host.registry.offers import Offers
from sandseal_host.registry.pending import Pending
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.receipts import ReceiptDesk
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.revocations import Revocations
from sandseal_host.registry.rotation import open_log
from sandseal_host.registry.scrub import Scrub
from sandseal_host.registry.standing import Standing
from sandseal_host.registry.tokens import Scope as TokenScope
from sandseal_host.registry.tokens import Token, Tokens
from sandseal_host.registry.trust import Trust
from sandseal_host.serving.live import IndexEntry, LiveModels
from sandseal_host.serving.model import Model, ModelState
from sandseal_host.settings import Settings
from sandseal_host.trust_desk import TrustDesk
from sandseal_host.vetting.vetter import Vetting
from sandseal_host.watch import TrustWatch
from sandseal_signing.digest import Digest, Readable
from sandseal_signing.errors import SandsealError, TrustError
from sandseal_signing.logentry import Detail, Kind, Role, Subject, sentence

_log = logging.getLogger(__name__)

_WATCH_S = 0.5  # between two looks at the trust file and the clock
_TIDY_S = 60.0  # between two looks for pending bundles whose time is over


class Host:
    """One process's host: what was accepted, what is live, and the edge in front; lives on one event loop.

    Args:
        settings: all of them.

    Raises:
        PolicyInvalid: there is no valid trust policy to start with.
        StoreError: the data folder cannot be used, or another host uses it.
        DeviceUnavailable, SettingsInvalid: see `Loader`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.state = HostState.STARTING
        self._live = LiveModels()
        with ExitStack() as opened:
            policy = PolicyFile(settings.trust)
            settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            catalog = opened.enter_context(
                Catalog(settings.catalog_url or f"sqlite:///{settings.data / 'catalog.sqlite'}")
            )
            store = opened.enter_context(BlobStore(settings.data / "blobs", settings.disk_reserve_mib << 20))
            keyring = Keyring(settings.data / "keys")
            self._journal = open_log(catalog, keyring)
            self._receipts = ReceiptDesk(self._journal, keyring.key(Role.RECEIPT))
            self._revocations = Revocations(catalog, self._journal)
            self._trust = Trust(policy, self._revocations, self._journal)
            self._integrity = IntegrityWatch(self._live, catalog.users, self._note_failed)
            self._integrity.listen()
            self._views = LoadViews(
                store, settings.data / "loads", rule=settings.lease, bytes_limit=settings.load_bytes_mib << 20
            )
            self._integrity.watch(self._views)
            self._registry = Registry(
                store,
                catalog,
                self._trust.current,
                self._journal,
                quota=settings.pending_mib << 20,
                patience=timedelta(days=settings.pending_days),
                views=self._views,
            )
            self._offers = Offers(
                self._registry, store, self._trust.current, settings.data / "blobs" / "offers", _offer_limits(settings)
            )
            self._tokens = Tokens(catalog)
            self._loader = Loader(settings)
            opened.callback(self._loader.close)
            self._vetting = Vetting(settings)
            opened.callback(self._vetting.close)
            self._scrub = Scrub(
                store,
                settings.data / "scrub.json",
                settings.scrub_mib_s * (1 << 20),
                self._integrity.report,
                rest_s=settings.scrub_rest_s,
            )
            opened.callback(self._scrub.close)
            self._opened = opened.pop_all()
        self._watch = TrustWatch(self._trust, self._live, self._registry.revoked, self._note_withdrawn)
        self._watching: asyncio.Future[Any] | None = None
        self._noting: set[asyncio.Future[None]] = set()
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._accepted = {(a.name, a.version) for a in self._registry.list()}
        self._pending: dict[tuple[str, int], str] = {}
        self._look_at_pending()
        self.new_token_file = self._tokens.first_start(settings.data / "operator.token")
        self.asgi = self._edge()

    async def start(self) -> None:
        """Bring back what was serving; a model that no longer loads is reported, and the others serve."""
        await self._watch.enforce()
        self._scrub.start()
        self._watching = asyncio.gather(self._watch.watch(_WATCH_S), self._tidy())
        for name, version in (await asyncio.to_thread(self._registry.intended)).items():
            try:
                await self.load(name, version, wait=True)
            except SandsealError as error:
                _log.error("%s version %s does not load: %s", name, version, error.message)
        self.state = HostState.READY

    def stopping(self) -> None:
        """Fail readiness from now on; what is asked is still answered."""
        self.state = HostState.STOPPING

    async def stop(self) -> None:
        """Drain and unload every model, then close everything."""
        self.stopping()
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for name in sorted({entry.name for entry in self._live.index()}):
            await self._live.unload(name, drain_s=self._settings.drain_s)
        await asyncio.gather(*self._noting, return_exceptions=True)
        await asyncio.to_thread(self._opened.close)
        self._integrity.close()

    # What the edge asks of models (api.ports.Models, Lifecycle).

    def get(self, name: str, version: int | None) -> Model:
        """The live model; see `LiveModels.get`.

        Raises:
            Revoked: it is not loaded, and could not be.
        """
        try:
            return self._live.get(name, version)
        except ModelUnknown as unknown:
            raise self._watch.refusal(name, version) or unknown from None

    def index(self) -> Sequence[ModelEntry]:
        """Every accepted version, loaded or not, and the pending ones."""
        live = {(entry.name, entry.version): entry for entry in self._live.index()}
        known = sorted(self._accepted | live.keys() | self._pending.keys())
        return [live.get(key) or self._resting(*key) for key in known]

    async def load(self, name: str, version: int | None, *, wait: bool) -> None:
        """Verify, build and serve an accepted version; the one that serves now answers until it is ready."""
        accepted = await asyncio.to_thread(self._registry.find, name, version)
        task = asyncio.ensure_future(self._load(accepted))
        if wait:
            await task
        else:
            task.add_done_callback(_report)

    async def unload(self, name: str, version: int | None, *, wait: bool) -> None:
        """Stop serving a model; it stays accepted, and is not loaded at the next start."""
        if not any(entry.name == name and version in (None, entry.version) for entry in self._live.index()):
            raise ModelUnknown(f"there is no loaded model {name!r}" + (f" version {version}" if version else ""))
        task = asyncio.ensure_future(self._unload(name, version))
        if wait:
            await task
        else:
            task.add_done_callback(_report)

    async def _load(self, accepted: Accepted) -> None:
        async with self._changing[accepted.name]:
            serving = self._serving(accepted.name)
            if serving is not None and serving.version == accepted.version:
                return
            try:
                await self._bring_up(accepted)
            except TrustError as refusal:
                self._watch.note((accepted.name, accepted.version), refusal)
                raise
            self._watch.note((accepted.name, accepted.version), None)
        await self._note(Kind.LOAD, accepted.subject, Detail(device=self._settings.device))

    async def _bring_up(self, accepted: Accepted) -> None:
        generation = self._trust.generation
        bundle = await asyncio.to_thread(self._registry.open, accepted.id)
        standing = Standing.of(bundle, accepted.accepted_at)
        self._receipts.know(bundle)
        model = Model(bundle.manifest, bundle.id.hex)
        model.advance(ModelState.VERIFYING)
        self._live.announce(model)

        async def admit() -> None:
            await self._watch.admit(standing, generation)
            bundle.check()

        try:
            await self._loader.load(model, bundle, admit)
        except BaseException:
            await asyncio.to_thread(bundle.close)
            raise
        await asyncio.to_thread(self._registry.intend, accepted.name, accepted.version)
        replaced = self._serving(accepted.name)
        await self._live.replace(model, drain_s=self._settings.drain_s)
        await self._note_unloaded(replaced, f"replaced by version {accepted.version}")

    async def _unload(self, name: str, version: int | None) -> None:
        async with self._changing[name]:
            serving = (await asyncio.to_thread(self._registry.intended)).get(name)
            if version in (None, serving):
                await asyncio.to_thread(self._registry.intend, name, None)
            model = self._serving(name)
            await self._live.unload(name, version, drain_s=self._settings.drain_s)
            await self._note_unloaded(model, "asked for")

    def _resting(self, name: str, version: int) -> IndexEntry:
        refusal = self._watch.refusal(name, version)
        if refusal is not None:
            return IndexEntry(name, version, ModelState.REVOKED, refusal.message)
        if (name, version) not in self._accepted:
            return IndexEntry(name, version, ModelState.PENDING, self._pending.get((name, version), ""))
        return IndexEntry(name, version, ModelState.UNLOADED, "unloaded")

    async def _note(self, kind: Kind, subject: Subject, detail: Detail) -> None:
        """Log what the host did by itself; on a thread, since it waits for the disk."""
        await asyncio.to_thread(self._journal.record, kind, "host", subject, detail)

    def _note_withdrawn(self, standing: Standing, reason: str) -> None:
        self._note_unload_soon(Subject(standing.id, *standing.key), reason)

    def _note_failed(self, model: Model, reason: str) -> None:
        self._note_unload_soon(_subject(model), reason)

    def _note_unload_soon(self, subject: Subject, reason: str) -> None:
        noting = asyncio.ensure_future(self._note(Kind.UNLOAD, subject, Detail(reason=sentence(reason))))
        self._noting.add(noting)
        noting.add_done_callback(self._noting.discard)
        noting.add_done_callback(_report)

    def _enforce(self) -> list[Withdrawn]:
        """Take what the policy refuses now out of service; called on worker threads."""
        gone = asyncio.run_coroutine_threadsafe(self._watch.enforce(), self._loop).result()
        return [Withdrawn(standing.id.hex, *standing.key, why) for standing, why in gone]

    def _serving(self, name: str) -> Model | None:
        try:
            return self._live.get(name)
        except SandsealError:
            return None

    async def _note_unloaded(self, model: Model | None, reason: str) -> None:
        if model is not None and model.state is ModelState.UNLOADED:
            await self._note(Kind.UNLOAD, _subject(model), Detail(reason=reason))

    # What the edge asks of bundles (api.ports.Bundles); called on worker threads.

    def _vet(self, bundle: Bound) -> None:
        self._vetting.vet(bundle, bundle.folder)

    def accept(self, stream: Readable, publisher: Grant) -> BundleEntry:
        """Verify, store, vet and serve an uploaded bundle."""
        return self._taken_in(self._registry.accept(stream, self._vet, publisher.name))

    def sign(self, bundle_id: str, signature: bytes, publisher: Grant) -> BundleEntry:
        """Add a signature; a bundle that it completes is served, and so is one that should be and was refused."""
        known = _digest(bundle_id)
        late = (accepted.id == known for accepted in self._registry.list())
        if not any(late):
            return self._taken_in(self._registry.sign(known, signature, self._vet, publisher.name))
        self._registry.sign(known, signature, self._vet, publisher.name)
        accepted = self._registry.get(known)
        asyncio.run_coroutine_threadsafe(self._resigned(accepted), self._loop).result()
        return self._proven(accepted)

    async def _resigned(self, accepted: Accepted) -> None:
        self._watch.renew(await asyncio.to_thread(self._registry.standing, accepted))
        if (await asyncio.to_thread(self._registry.intended)).get(accepted.name) == accepted.version:
            await self._load(accepted)

    def _taken_in(self, accepted: Accepted | Pending) -> BundleEntry:
        self._look_at_pending()
        if isinstance(accepted, Pending):
            return _pending_entry(accepted)
        self._accepted.add((accepted.name, accepted.version))
        if accepted == self._registry.find(accepted.name):  # the newest is what a push puts into service
            asyncio.run_coroutine_threadsafe(self._load(accepted), self._loop).result()
        return self._proven(accepted)

    def entries(self) -> Sequence[BundleEntry]:
        """The accepted bundles, and the pending ones."""
        accepted = [self._entry(accepted) for accepted in self._registry.list()]
        return [*accepted, *map(_pending_entry, self._registry.pending())]

    def entry(self, bundle_id: str) -> BundleEntry:
        """One of them."""
        wanted = _digest(bundle_id)
        for pending in self._registry.pending():
            if pending.id == wanted:
                return _pending_entry(pending)
        return self._proven(self._registry.get(_digest(bundle_id)))

    def remove(self, bundle_id: str) -> None:
        """Unload a bundle's model if it is loaded, and forget the bundle."""
        if _digest(bundle_id) in {pending.id for pending in self._registry.pending()}:
            self._registry.delete(_digest(bundle_id))
            self._look_at_pending()
            return
        accepted = self._registry.get(_digest(bundle_id))
        if (accepted.name, accepted.version) in {(e.name, e.version) for e in self._live.index()}:
            unload = self._unload(accepted.name, accepted.version)
            asyncio.run_coroutine_threadsafe(unload, self._loop).result()
        self._registry.delete(accepted.id)
        self._accepted.discard((accepted.name, accepted.version))
        self._watch.note((accepted.name, accepted.version), None)

    def _look_at_pending(self) -> None:
        self._pending = {(pending.name, pending.version): pending.detail for pending in self._registry.pending()}

    async def _tidy(self) -> None:
        """Delete pending bundles when their time is over."""
        while True:
            await asyncio.sleep(_TIDY_S)
            try:
                await asyncio.to_thread(self._registry.expire)
                await asyncio.to_thread(self._offers.expire)
                await asyncio.to_thread(self._look_at_pending)
            except SandsealError as error:
                _log.error("pending bundles could not be deleted: %s", error.message)

    def _proven(self, accepted: Accepted) -> BundleEntry:
        """The bundle, with where the log says that it was accepted."""
        entry, logged = self._entry(accepted), self._journal.acceptance(accepted.id)
        if logged is None:  # accepted before there was a log
            return entry
        shown = LoggedEntry(logged.proof.index, logged.entry.decode(), logged.proof.render().decode())
        return replace(entry, log=shown)

    def _entry(self, accepted: Accepted) -> BundleEntry:
        states = {(entry.name, entry.version): str(entry.state) for entry in self._live.index()}
        return BundleEntry(
            id=accepted.id.hex,
            name=accepted.name,
            version=accepted.version,
            release=accepted.release,
            state=states.get((accepted.name, accepted.version), "accepted"),
            signers=tuple(Signer(s.key, s.holder, s.fingerprint) for s in accepted.signers),
            rule=accepted.rule,
            holders=accepted.holders,
            threshold=accepted.threshold,
            size=accepted.size,
            accepted_at=accepted.accepted_at,
            weights=self._binding(accepted, states),
        )

    def _binding(self, accepted: Accepted, states: Mapping[tuple[str, int], str]) -> str | None:
        if states.get((accepted.name, accepted.version)) != ModelState.READY:
            return None
        return "path" if self._views.bound(accepted.id) else "bytes"

    def _edge(self) -> DataPlane:
        metrics = HostMetrics()
        metrics.add("sandseal_registry", lambda: [({}, self._registry.statistics())])
        metrics.add("sandseal_offers", lambda: [({}, self._offers.statistics())])
        metrics.add("sandseal_scrub", lambda: [({}, self._scrub.statistics())])
        metrics.add("sandseal_blob", self._blob_checks)
        metrics.add("sandseal_model", self._model_statistics)
        settings = ApiSettings(
            max_body_bytes=self._settings.max_body_mib << 20,
            max_bundle_bytes=self._settings.max_bundle_mib << 20,
            anonymous_inference=self._settings.anonymous,
        )
        return create_app(
            models=self,
            bundles=self,
            offers=OfferDesk(self._offers, self._vet, self._taken_in, _offer_limits(self._settings).life),
            tokens=_TokenDesk(self._tokens),
            trust=TrustDesk(self._trust, self._revocations, self._registry, self._enforce),
            log=self._journal,
            receipts=self._receipts,
            lifecycle=self,
            metrics=metrics,
            settings=settings,
        )

    def _blob_checks(self) -> Statistics:
        return [({"blob": digest.hex}, check) for digest, check in self._scrub.checks().items()]

    def _model_statistics(self) -> Statistics:
        return list(self._statistics())

    def _statistics(self) -> Iterator[tuple[dict[str, str], object]]:
        for entry in self._live.index():
            if entry.state is not ModelState.READY:
                continue
            model = self._live.get(entry.name, entry.version)
            yield {"model": entry.name, "version": str(entry.version)}, model.statistics()


class _TokenDesk:
    """The registry's tokens as the edge speaks of them (api.ports.Tokens)."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def check(self, secret: str) -> Grant:
        token = self._tokens.check(secret)
        if token is None:
            raise NotAuthenticated("this token was never issued, was revoked, or has expired")
        return Grant(token.name, frozenset(Scope(s) for s in token.scopes), token.tenant, token.models, token.id)

    def issue(self, grant: Grant, expires: datetime | None) -> tuple[TokenEntry, str]:
        scopes = [TokenScope(scope) for scope in grant.scopes]
        issued = self._tokens.issue(grant.name, scopes, tenant=grant.tenant, models=grant.models, expires=expires)
        return _token_entry(issued.token), issued.secret

    def entries(self) -> Sequence[TokenEntry]:
        return [_token_entry(token) for token in self._tokens.list()]

    def revoke(self, token_id: str) -> bool:
        return self._tokens.revoke(token_id)


def _offer_limits(settings: Settings) -> OfferLimits:
    return OfferLimits(
        open=settings.max_offers,
        bytes=settings.max_offered_mib << 20,
        bundle=settings.max_bundle_mib << 20,
        reserve=settings.disk_reserve_mib << 20,
        life=timedelta(hours=settings.offer_hours),
        share=settings.share_blobs,
    )


def _token_entry(token: Token) -> TokenEntry:
    return TokenEntry(
        id=token.id,
        name=token.name,
        scopes=tuple(sorted(token.scopes)),
        tenant=token.tenant,
        models=token.models,
        created=token.created,
        expires=token.expires,
    )


def _pending_entry(pending: Pending) -> BundleEntry:
    return BundleEntry(
        id=pending.id.hex,
        name=pending.name,
        version=pending.version,
        release=pending.release,
        state="pending",
        signers=tuple(Signer(s.key, s.holder, s.fingerprint) for s in pending.signers),
        rule=pending.verdict.rule,
        holders=pending.verdict.holders,
        threshold=pending.verdict.threshold,
        size=pending.size,
        accepted_at=None,
        detail=pending.detail,
    )


def _subject(model: Model) -> Subject:
    return Subject(Digest(model.bundle_id), model.name, model.version)


def _digest(bundle_id: str) -> Digest:
    try:
        return Digest(bundle_id)
    except SandsealError:
        raise BundleUnknown(f"{bundle_id[:80]!r} is not a bundle id") from None


def _report(task: "asyncio.Future[None]") -> None:
    """Log how a change that nobody waited for ended."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("in the background: %s", error)
