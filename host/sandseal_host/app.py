"""The host: the only place where the rooms are wired together."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime

from sandseal_host.api.app import create_app
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.grant import Grant, Scope
from sandseal_host.api.ports import BundleEntry, HostState, ModelEntry, Signer, TokenEntry
from sandseal_host.api.settings import ApiSettings
from sandseal_host.errors import BundleUnknown, ModelUnknown, NotAuthenticated
from sandseal_host.loader import Loader
from sandseal_host.observe.metrics import HostMetrics, Statistics
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.tokens import Scope as TokenScope
from sandseal_host.registry.tokens import Token, Tokens
from sandseal_host.serving.live import IndexEntry, LiveModels
from sandseal_host.serving.model import Model, ModelState
from sandseal_host.settings import Settings
from sandseal_signing.digest import Digest, Readable
from sandseal_signing.errors import SandsealError

_log = logging.getLogger(__name__)


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
        with ExitStack() as opened:
            policy = PolicyFile(settings.trust)
            settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            catalog = opened.enter_context(
                Catalog(settings.catalog_url or f"sqlite:///{settings.data / 'catalog.sqlite'}")
            )
            store = opened.enter_context(BlobStore(settings.data / "blobs"))
            self._registry = Registry(store, catalog, policy.current)
            self._tokens = Tokens(catalog)
            self._loader = Loader(settings)
            opened.callback(self._loader.close)
            self._opened = opened.pop_all()
        self._live = LiveModels()
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._accepted = {(a.name, a.version) for a in self._registry.list()}
        self.new_token_file = self._tokens.first_start(settings.data / "operator.token")
        self.asgi = self._edge()

    async def start(self) -> None:
        """Bring back what was serving; a model that no longer loads is reported, and the others serve."""
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
        for name in sorted({entry.name for entry in self._live.index()}):
            await self._live.unload(name, drain_s=self._settings.drain_s)
        await asyncio.to_thread(self._opened.close)

    # What the edge asks of models (api.ports.Models, Lifecycle).

    def get(self, name: str, version: int | None) -> Model:
        """The live model; see `LiveModels.get`."""
        return self._live.get(name, version)

    def index(self) -> Sequence[ModelEntry]:
        """Every accepted version, loaded or not."""
        live = {(entry.name, entry.version): entry for entry in self._live.index()}
        return [
            live.get(key) or IndexEntry(*key, ModelState.UNLOADED, "unloaded")
            for key in sorted(self._accepted | live.keys())
        ]

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
            if self._is_live(accepted):
                return
            bundle = await asyncio.to_thread(self._registry.open, accepted.id)
            model = Model(bundle.manifest, bundle.id.hex)
            model.advance(ModelState.VERIFYING)
            self._live.announce(model)
            await self._loader.load(model, bundle)
            await asyncio.to_thread(self._registry.intend, accepted.name, accepted.version)
            await self._live.replace(model, drain_s=self._settings.drain_s)
        _log.info("%s version %s is ready", accepted.name, accepted.version)

    async def _unload(self, name: str, version: int | None) -> None:
        async with self._changing[name]:
            serving = (await asyncio.to_thread(self._registry.intended)).get(name)
            if version in (None, serving):
                await asyncio.to_thread(self._registry.intend, name, None)
            await self._live.unload(name, version, drain_s=self._settings.drain_s)

    def _is_live(self, accepted: Accepted) -> bool:
        try:
            return self._live.get(accepted.name).version == accepted.version
        except SandsealError:
            return False

    # What the edge asks of bundles (api.ports.Bundles); called on worker threads.

    def accept(self, stream: Readable, publisher: Grant) -> BundleEntry:
        """Verify, store, vet and serve an uploaded bundle."""
        accepted = self._registry.accept(stream, self._loader.vet)
        _log.info("%s pushed %s version %s: accepted", publisher.name, accepted.name, accepted.version)
        self._accepted.add((accepted.name, accepted.version))
        if accepted == self._registry.find(accepted.name):  # the newest is what a push puts into service
            asyncio.run_coroutine_threadsafe(self._load(accepted), self._loop).result()
        return self._entry(accepted)

    def entries(self) -> Sequence[BundleEntry]:
        """The accepted bundles."""
        return [self._entry(accepted) for accepted in self._registry.list()]

    def entry(self, bundle_id: str) -> BundleEntry:
        """One of them."""
        return self._entry(self._registry.get(_digest(bundle_id)))

    def remove(self, bundle_id: str) -> None:
        """Unload a bundle's model if it is loaded, and forget the bundle."""
        accepted = self._registry.get(_digest(bundle_id))
        if (accepted.name, accepted.version) in {(e.name, e.version) for e in self._live.index()}:
            unload = self._unload(accepted.name, accepted.version)
            asyncio.run_coroutine_threadsafe(unload, self._loop).result()
        self._registry.delete(accepted.id)
        self._accepted.discard((accepted.name, accepted.version))

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
        )

    def _edge(self) -> DataPlane:
        metrics = HostMetrics()
        metrics.add("sandseal_registry", lambda: [({}, self._registry.statistics())])
        metrics.add("sandseal_model", self._model_statistics)
        settings = ApiSettings(
            max_body_bytes=self._settings.max_body_mib << 20,
            max_bundle_bytes=self._settings.max_bundle_mib << 20,
            anonymous_inference=self._settings.anonymous,
        )
        return create_app(
            models=self,
            bundles=self,
            tokens=_TokenDesk(self._tokens),
            lifecycle=self,
            metrics=metrics,
            settings=settings,
        )

    def _model_statistics(self) -> Statistics:
        return list(self._statistics())

    def _statistics(self) -> Iterator[tuple[dict[str, str], object]]:
        for entry in self._live.index():
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
        return Grant(token.name, frozenset(Scope(s) for s in token.scopes), token.tenant, token.models)

    def issue(self, grant: Grant, expires: datetime | None) -> tuple[TokenEntry, str]:
        scopes = [TokenScope(scope) for scope in grant.scopes]
        issued = self._tokens.issue(grant.name, scopes, tenant=grant.tenant, models=grant.models, expires=expires)
        return _token_entry(issued.token), issued.secret

    def entries(self) -> Sequence[TokenEntry]:
        return [_token_entry(token) for token in self._tokens.list()]

    def revoke(self, token_id: str) -> bool:
        return self._tokens.revoke(token_id)


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


def _digest(bundle_id: str) -> Digest:
    try:
        return Digest(bundle_id)
    except SandsealError:
        raise BundleUnknown(f"{bundle_id[:80]!r} is not a bundle id") from None


def _report(task: "asyncio.Future[None]") -> None:
    """Log how a change that nobody waited for ended."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("in the background: %s", error)
