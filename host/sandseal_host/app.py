"""The host: the only place where the rooms are wired together."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

from sandseal_host.api.access import read_access
from sandseal_host.api.app import create_app
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.oidc import IdentityProvider
from sandseal_host.api.ports import HostState
from sandseal_host.api.settings import ApiSettings, JsonLimits
from sandseal_host.desks.bundles import BundleDesk
from sandseal_host.desks.offers import OfferDesk
from sandseal_host.desks.tokens import TokenDesk
from sandseal_host.desks.trust import TrustDesk
from sandseal_host.errors import HostError, SettingsInvalid
from sandseal_host.lifecycle.evictions import LOOK_S
from sandseal_host.lifecycle.integrity import IntegrityWatch
from sandseal_host.lifecycle.models import ModelKeeper
from sandseal_host.lifecycle.notes import Notes
from sandseal_host.lifecycle.watch import TrustWatch
from sandseal_host.loader import Loader
from sandseal_host.observe.metrics import HostMetrics, Statistics
from sandseal_host.observe.observers import Observers
from sandseal_host.observe.request_metrics import RequestMetrics
from sandseal_host.observe.tail import SteadyTail
from sandseal_host.observe.triton import TritonModel, triton_text
from sandseal_host.private_cache import PrivateCache
from sandseal_host.registry.blobs import BlobStore
from sandseal_host.registry.catalog import Catalog
from sandseal_host.registry.keyring import Keyring
from sandseal_host.registry.load_view import Bound, LoadViews
from sandseal_host.registry.offer_limits import OfferLimits
from sandseal_host.registry.offers import Offers
from sandseal_host.registry.policy import PolicyFile
from sandseal_host.registry.receipts import ReceiptDesk
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.revocations import Revocations
from sandseal_host.registry.rotation import open_log
from sandseal_host.registry.scrub import Scrub
from sandseal_host.registry.tokens import Tokens
from sandseal_host.registry.trust import Trust
from sandseal_host.runtime.saved_graphs import SavedGraphs
from sandseal_host.sandbox.compiler import CompileLimits, Compiler
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_host.serving.live import LiveModels
from sandseal_host.serving.model import Model
from sandseal_host.serving.rules import ServingRules
from sandseal_host.serving.states import ModelState
from sandseal_host.settings import Settings
from sandseal_host.vetting.vetter import Vetting
from sandseal_signing.errors import SandsealError
from sandseal_signing.logentry import Role

_log = logging.getLogger(__name__)

_WATCH_S = 0.5  # between two looks at the trust file and the clock


class Host:
    """One process's host: what was accepted, what is live, and the edge in front; lives on one event loop.

    Args:
        settings: all of them.

    Raises:
        PolicyInvalid: there is no valid trust policy to start with.
        StoreError: the data folder cannot be used, or another host uses it.
        DeviceUnavailable, SettingsInvalid: see `Loader` and `ServingRules`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rules = ServingRules.read(settings)
        self._access = read_access(settings.access)
        self._provider = IdentityProvider(self._access.oidc) if self._access.oidc else None
        self._live = LiveModels()
        self._tail = SteadyTail()
        with ExitStack() as opened:
            self._observers = Observers(settings)
            opened.callback(self._observers.close)
            self._open_store(opened)
            self._open_registry()
            self._open_workers(opened)
            self._opened = opened.pop_all()
        self._watch = TrustWatch(self._trust, self._live, self._registry.revoked, self._notes.withdrawn)
        self._models = ModelKeeper(
            registry=self._registry,
            loader=self._loader,
            live=self._live,
            watch=self._watch,
            receipts=self._receipts,
            notes=self._notes,
            rules=self._rules,
            settings=settings,
        )
        self._watching: asyncio.Future[Any] | None = None
        tokens = Tokens(self._catalog)
        self.new_token_file = tokens.first_start(settings.data / "operator.token")
        self.asgi = self._edge(tokens)

    async def start(self) -> None:
        """Bring back what was serving; a model that no longer loads is reported, and the others serve."""
        await self._watch.enforce()
        self._scrub.start()
        self._watching = asyncio.gather(self._watch.watch(_WATCH_S), self._tidy())
        if self._workers is not None and not await self._start_workers(self._workers):
            return
        await self._models.restore()
        self._tail.start()  # what the host is made of is there by now
        self._models.state = HostState.READY
        self._note_workers(self._workers is None or self._workers.working)

    def stopping(self) -> None:
        """Fail readiness and break off loads from now on; what is asked is still answered."""
        self._models.stopping()

    async def stop(self) -> None:
        """Drain and unload every model, then close everything."""
        self.stopping()
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._models.stop()
        self._tail.close()
        await asyncio.to_thread(self._opened.close)
        self._integrity.close()

    def _open_store(self, opened: ExitStack) -> None:
        """Open what lies in the data folder: the catalog, the blobs, the log, and the policy that they are under."""
        settings = self._settings
        policy = PolicyFile(settings.trust)
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        url = settings.catalog_url or f"sqlite:///{settings.data / 'catalog.sqlite'}"
        self._catalog = opened.enter_context(Catalog(url))
        self._store = opened.enter_context(BlobStore(settings.data / "blobs", settings.disk_reserve_mib << 20))
        keyring = Keyring(settings.data / "keys")
        self._journal = open_log(self._catalog, keyring)
        self._notes = Notes(self._journal)
        self._receipts = ReceiptDesk(self._journal, keyring.key(Role.RECEIPT))
        self._revocations = Revocations(self._catalog, self._journal)
        self._trust = Trust(policy, self._revocations, self._journal)

    def _open_registry(self) -> None:
        """Open the bundles, and the views of those that are loaded by path."""
        settings = self._settings
        self._integrity = IntegrityWatch(self._live, self._catalog.users, self._notes.failed)
        self._integrity.listen()
        self._views = LoadViews(
            self._store, settings.data / "loads", rule=settings.lease, bytes_limit=settings.load_bytes_mib << 20
        )
        self._integrity.watch(self._views)
        self._registry = Registry(
            self._store,
            self._catalog,
            self._trust.current,
            self._journal,
            quota=settings.pending_mib << 20,
            patience=timedelta(days=settings.pending_days),
            views=self._views,
        )
        folder = settings.data / "blobs" / "offers"
        self._offers = Offers(self._registry, self._store, self._trust.current, folder, _offer_limits(settings))

    def _open_workers(self, opened: ExitStack) -> None:
        """Open what builds models, what looks into bundles, and what reads stored files again."""
        settings = self._settings
        keys = settings.data / "keys"
        self._code = PrivateCache(
            settings.data / "code", keys / "code.key", settings.code_cache_mib << 20, "compiled plugins"
        )
        self._graphs = PrivateCache(
            settings.data / "graphs", keys / "graphs.key", settings.graph_cache_mib << 20, "optimised graphs"
        )
        compiler = Compiler(self._code, _compile_limits(settings))
        self._workers = _workers(settings, self._note_workers)
        if self._workers is not None:
            opened.callback(self._workers.close)
        saved = SavedGraphs(self._graphs) if settings.graph_cache_mib else None
        self._loader = Loader(settings, compiler=compiler, workers=self._workers, rules=self._rules, saved=saved)
        opened.callback(self._loader.close)
        self._vetting = Vetting(settings)
        opened.callback(self._vetting.close)
        self._scrub = Scrub(
            self._store,
            settings.data / "scrub.json",
            settings.scrub_mib_s * (1 << 20),
            self._integrity.report,
            rest_s=settings.scrub_rest_s,
        )
        opened.callback(self._scrub.close)

    async def _start_workers(self, workers: Workers) -> bool:
        try:
            await workers.start()
        except SettingsInvalid as error:
            _log.error("%s: %s", error.message, error.hint)
            self._models.state = HostState.NO_WORKERS
            return False
        return True

    def _note_workers(self, working: bool) -> None:
        """Be ready only while plugins can run."""
        if self._models.state in (HostState.READY, HostState.NO_WORKERS):
            self._models.state = HostState.READY if working else HostState.NO_WORKERS

    def _vet(self, bundle: Bound) -> None:
        self._vetting.vet(bundle, bundle.folder)

    async def _tidy(self) -> None:
        """Delete pending bundles when their time is over, and bring back what made room, once there is some."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await asyncio.to_thread(self._registry.expire)
                await asyncio.to_thread(self._offers.expire)
                await asyncio.to_thread(self._models.look_at_pending)
                await asyncio.to_thread(self._loader.ledger.rest)
                await self._models.bring_back()
            except SandsealError as error:
                _log.error("pending bundles could not be deleted: %s", error.message)

    def _edge(self, tokens: Tokens) -> DataPlane:
        bundles = BundleDesk(self._registry, self._models, self._vet, self._journal, self._views)
        settings = self._settings
        return create_app(
            models=self._models,
            bundles=bundles,
            offers=OfferDesk(self._offers, self._vet, bundles.taken_in, _offer_limits(settings).life),
            tokens=TokenDesk(tokens, self._provider),
            trust=TrustDesk(self._trust, self._revocations, self._registry, self._models.enforce),
            log=self._journal,
            receipts=self._receipts,
            lifecycle=self._models,
            metrics=self._metrics(),
            observers=self._observers,
            settings=ApiSettings(
                max_body_bytes=settings.max_body_mib << 20,
                max_json_bytes=settings.max_json_mib << 20,
                json=JsonLimits(settings.max_json_values, settings.max_json_depth),
                max_ratio=settings.max_ratio,
                max_head_bytes=settings.max_head_kib << 10,
                max_calls=settings.max_connections,
                slow_s=settings.slow_s,
                max_bundle_bytes=settings.max_bundle_mib << 20,
                max_uploads=settings.max_uploads,
                max_transfers=settings.max_transfers,
                anonymous_inference=settings.anonymous,
                default_class=settings.default_class,
                access=self._access,
            ),
        )

    def _metrics(self) -> HostMetrics:
        metrics = HostMetrics()
        metrics.add("sandseal", lambda: [({}, self._tail.statistics())])
        metrics.add("sandseal_registry", lambda: [({}, self._registry.statistics())])
        metrics.add("sandseal_loads", lambda: [({}, self._models.statistics())])
        metrics.add("sandseal_offers", lambda: [({}, self._offers.statistics())])
        metrics.add("sandseal_code", lambda: [({}, self._code.statistics())])
        metrics.add("sandseal_graphs", lambda: [({}, self._graphs.statistics())])
        metrics.add("sandseal_vetting", lambda: [({}, self._vetting.statistics())])
        metrics.add("sandseal_scrub", lambda: [({}, self._scrub.statistics())])
        metrics.add("sandseal_blob", self._blob_checks)
        metrics.add("sandseal_plugin", self._loader.plugin_statistics)
        if (workers := self._workers) is not None:
            metrics.add("sandseal_workers", lambda: [({}, workers.statistics())])
        metrics.add("sandseal_model", lambda: list(self._model_statistics()))
        metrics.add("sandseal_device", self._loader.ledger.statistics)
        metrics.add("sandseal_session", self._loader.ledger.session_statistics)
        if (cache := self._loader.cache) is not None:
            metrics.add("sandseal_cache", lambda: [({}, cache.statistics())])
        if (profiles := self._observers.profiles) is not None:
            metrics.add("sandseal_profiles", lambda: [({}, profiles.statistics())])
        if self._settings.triton_metrics:
            metrics.append(lambda: triton_text(self._triton_models(metrics.requests), self._device_memory()))
        return metrics

    def _blob_checks(self) -> Statistics:
        return [({"blob": digest.hex}, check) for digest, check in self._scrub.checks().items()]

    def _model_statistics(self) -> Iterator[tuple[dict[str, str], object]]:
        for model in self._ready():
            yield {"model": model.name, "version": str(model.version)}, model.statistics()

    def _ready(self) -> Iterator[Model]:
        for entry in self._live.index():
            if entry.state is ModelState.READY:
                with suppress(HostError):  # it ends just now
                    yield self._live.get(entry.name, entry.version)

    def _triton_models(self, requests: RequestMetrics) -> Iterator[TritonModel]:
        for model in self._ready():
            served, statistics = model.served(), model.statistics()
            yield TritonModel(
                model.name,
                model.version,
                statuses=requests.meter(model.name, model.version).statuses(),
                success=served.requests,
                rows=served.rows,
                executions=sum(count for count, _ in served.batches.values()),
                queue_s=served.queue_s,
                pre_s=served.pre_s,
                run_s=served.run_s,
                post_s=served.post_s,
                pending=statistics.lane.scheduler.requests if statistics.lane else 0,
                hits=served.hits,
                hits_s=served.hits_s,
                misses=served.misses,
                misses_s=served.misses_s,
            )

    def _device_memory(self) -> dict[str, tuple[int, int]]:
        found = self._loader.ledger.statistics()
        return {at["device"]: (each.total_bytes, each.total_bytes - each.free_bytes) for at, each in found}


def _workers(settings: Settings, on_change: Callable[[bool], None]) -> Workers | None:
    """The processes that run plugins; None where threads do."""
    count = settings.plugin_workers
    if count is None:
        count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 0
    return Workers(count, memory_mib=settings.plugin_memory_mib, on_change=on_change) if count else None


def _compile_limits(settings: Settings) -> CompileLimits:
    """Those that the plugin was vetted under."""
    return CompileLimits(settings.vet_memory_mib << 20, settings.vet_cpu_s, settings.vet_time_s)


def _offer_limits(settings: Settings) -> OfferLimits:
    return OfferLimits(
        open=settings.max_offers,
        bytes=settings.max_offered_mib << 20,
        bundle=settings.max_bundle_mib << 20,
        reserve=settings.disk_reserve_mib << 20,
        life=timedelta(hours=settings.offer_hours),
        share=settings.share_blobs,
    )
