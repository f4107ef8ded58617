"""The versions that were accepted, and which of them serve."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sandseal_host.api.ports import HostState, ModelEntry
from sandseal_host.errors import ModelUnknown, Revoked, ShuttingDown
from sandseal_host.lifecycle.evictions import REASON, Evictions
from sandseal_host.lifecycle.launcher import Launcher, LoadStatistics
from sandseal_host.lifecycle.notes import Notes, report
from sandseal_host.lifecycle.watch import Key, TrustWatch
from sandseal_host.loader import Loader
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.pending import Pending
from sandseal_host.registry.receipts import ReceiptDesk
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.standing import Standing
from sandseal_host.serving.live import IndexEntry, LiveModels
from sandseal_host.serving.model import Model
from sandseal_host.serving.rules import ServingRules
from sandseal_host.serving.states import ModelState
from sandseal_host.serving.versions import VersionPolicy
from sandseal_host.settings import Settings
from sandseal_signing.errors import SandsealError, TrustError

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class ModelKeeper:
    """Brings accepted versions up and down, one change of a name at a time (api.ports.Models, Lifecycle).

    Lives on the event loop; the methods that say that they block are for worker threads.

    Args:
        registry: the bundles, and which versions should serve.
        loader: builds models out of bundles; idle models make room where it needs it.
        live: the models.
        watch: admits what is trusted, and remembers what is not.
        receipts: told of every bundle before it serves.
        notes: told of every load and unload.
        rules: which versions of a model serve side by side.
        settings: the device, how long a stage of a load takes, and how long a model drains.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        loader: Loader,
        live: LiveModels,
        watch: TrustWatch,
        receipts: ReceiptDesk,
        notes: Notes,
        rules: ServingRules,
        settings: Settings,
    ) -> None:
        self._registry, self._live, self._watch = registry, live, watch
        self._notes, self._rules, self._settings = notes, rules, settings
        self._launcher = Launcher(registry, loader, live, watch, receipts, settings)
        self._evictions = Evictions(live, notes, settings.drain_s)
        self._ledger = loader.ledger
        self._ledger.give_way = self._evictions.evict
        loader.find = self.member
        self.state = HostState.STARTING
        self._loop = asyncio.get_running_loop()
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._last: dict[str, tuple[int, asyncio.Task[None]]] = {}  # change of a name, where it is a load: its version
        self._loading: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._accepted = {_key(accepted) for accepted in registry.list()}
        self._pending: Mapping[Key, IndexEntry] = {}
        self.look_at_pending()
        watch.changed = self.look_at_pending

    def get(self, name: str, version: int | None) -> Model:
        """The live model; see `LiveModels.get`.

        Raises:
            Revoked: it is not loaded, and could not be.
            Evicted: it made room for another model.
        """
        try:
            return self._live.get(name, version)
        except ModelUnknown as unknown:
            raise self._watch.refusal(name, version) or self._evictions.refusal(name, version) or unknown from None

    def member(self, name: str, bundle_id: str) -> Model:
        """The live model that a pipeline's step names; of a bundle, where it names one. Raises as `get` does."""
        return self._live.pinned(name, bundle_id) if bundle_id else self.get(name, None)

    def index(self) -> Sequence[ModelEntry]:
        """Every accepted version, loaded or not, and the pending ones."""
        live = {(entry.name, entry.version): entry for entry in self._live.index()}
        known = sorted(self._accepted | live.keys() | self._pending.keys())
        return [live.get(key) or self._resting(*key) for key in known]

    def states(self) -> Mapping[Key, ModelState]:
        """The states of the versions that are loaded or were, until they are unloaded by name."""
        return {(entry.name, entry.version): entry.state for entry in self._live.index()}

    def refusal(self, name: str, version: int) -> Revoked | None:
        """Why an accepted version may not serve now; None when it may."""
        return self._watch.refusal(name, version)

    def versions(self, name: str) -> VersionPolicy:
        """Which versions of a model serve side by side."""
        return self._rules.versions(name)

    async def load(self, name: str, version: int | None, *, wait: bool) -> None:
        """Verify, build and serve an accepted version, or those that the operator's policy says; see `_load`."""
        accepted = await asyncio.to_thread(self._registry.find, name, version)
        wanted = [accepted] if version else await asyncio.to_thread(self._chosen, name, {})
        if not wanted:
            raise ModelUnknown(f"none of the versions of {name!r} that the operator serves was accepted", name=name)
        await self._change(self._load_each(wanted), wait=wait)

    async def unload(self, name: str, version: int | None, *, wait: bool) -> None:
        """Stop serving a model; it stays accepted, and is not loaded at the next start."""
        loaded = any(known == name and version in (None, number) for known, number in self.states())
        if not loaded and not self._evictions.refusal(name, version):
            raise ModelUnknown(f"there is no loaded model {name!r}" + (f" version {version}" if version else ""))
        await self._change(self._unload(name, version), wait=wait)

    async def restore(self) -> None:
        """Bring back what served, as the policy of now says; what no longer loads is reported, and the rest serves."""
        for name, turns in (await asyncio.to_thread(self._registry.intended)).items():
            if any(turns.values()):
                for accepted in reversed(await asyncio.to_thread(self._chosen, name, turns)):
                    await self._restore(accepted)

    async def bring_back(self) -> None:
        """Load again what made room for others, the latest first, as far as nobody has to go for it."""
        for (name, version), held in self._evictions.waiting().items():
            accepted = await asyncio.to_thread(self._registry.find, name, version)
            spare = await asyncio.to_thread(self._ledger.spare, self._settings.replicas)
            if max(held, accepted.size) <= spare and self._evictions.refusal(name, version):
                await self._restore(accepted)

    def stopping(self) -> None:
        """Fail readiness and break off loads from now on; what is asked is still answered."""
        self.state = HostState.STOPPING
        for load in self._loading:
            load.cancel()

    async def stop(self) -> None:
        """Drain and unload every model, pipelines first; all of them are brought back at the next start."""
        self.stopping()
        await asyncio.gather(*self._loading, return_exceptions=True)
        for names in (self._live.pipelines(), {entry.name for entry in self._live.index()}):
            await asyncio.gather(*map(self._retire, names))
        await self._live.settled()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._notes.finish()

    def take_in(self, taken: Accepted | Pending) -> None:
        """Know of a bundle that was just taken in; serve it if it is the newest that should, or did serve. Blocks."""
        self.look_at_pending()
        if isinstance(taken, Pending):
            return
        self._accepted.add(_key(taken))
        turn = self._registry.intended().get(taken.name, {}).get(taken.version)
        newest = taken == self._registry.find(taken.name) and self.versions(taken.name).takes(taken.version)
        if newest or turn:
            self._wait(self._load(taken))

    def resign(self, accepted: Accepted) -> None:
        """Judge a version by its signatures of now; one that should serve and was refused is loaded. Blocks."""
        self._wait(self._resign(accepted))

    def remove(self, accepted: Accepted) -> None:
        """Unload a version if it is loaded, and forget its bundle; blocks."""
        self._wait(self._remove(accepted))

    def statistics(self) -> LoadStatistics:
        """How loads went."""
        return self._launcher.statistics()

    def enforce(self) -> Sequence[tuple[Standing, str]]:
        """Take what the policy refuses now out of service, and say why; blocks."""
        return self._wait(self._watch.enforce())

    def look_at_pending(self) -> None:
        """Show the bundles that are pending now in the index, and which of them wait for nothing any more; blocks."""
        doomed_first = sorted(self._registry.pending(), key=lambda pending: not pending.refused)
        self._pending = {(pending.name, pending.version): _waiting(pending) for pending in doomed_first}

    def _chosen(self, name: str, turns: Mapping[int, int]) -> list[Accepted]:
        """The versions that the policy wants, the most important one first; blocks."""
        known = [accepted for accepted in self._registry.list() if accepted.name == name]
        known.sort(key=lambda accepted: (accepted.accepted_at, accepted.version), reverse=True)
        by_version = {accepted.version: accepted for accepted in known}
        return [by_version[version] for version in self.versions(name).chosen([*by_version], turns)]

    async def _restore(self, accepted: Accepted) -> None:
        try:
            await self._load(accepted)
        except SandsealError as error:
            _log.error("%s version %s does not load: %s", accepted.name, accepted.version, error.message)

    async def _load_each(self, wanted: Sequence[Accepted]) -> None:
        """Load what the policy wants, the newest last, which so has the last turn."""
        failed: list[SandsealError] = []
        for accepted in reversed(wanted):
            try:
                await self._load(accepted)
            except SandsealError as error:
                failed.append(error)
        if failed:
            raise failed[-1]

    async def _load(self, accepted: Accepted) -> None:
        """Let a version serve; whoever serves answers until it is ready. Joins a load of it that nothing else follows.

        Raises:
            SandsealError: it does not load; the others serve on.
        """
        if self.state is HostState.STOPPING:
            raise ShuttingDown("this host is stopping")
        last = self._last.get(accepted.name)
        if last is None or last[0] != accepted.version or last[1].done():
            last = accepted.version, _kept(self._load_next(accepted), self._loading)
            self._last[accepted.name] = last
        try:
            await asyncio.shield(last[1])
        except asyncio.CancelledError:
            if last[1].cancelled():
                raise ShuttingDown("this host is stopping") from None
            raise

    async def _load_next(self, accepted: Accepted) -> None:
        async with self._changing[accepted.name]:
            known = [model for model in self._live.ready(accepted.name) if model.version == accepted.version]
            await self._switch(*(known or [await self._launch(accepted)]))
        if not known:
            await self._notes.loaded(accepted.subject, self._settings.device)

    async def _launch(self, accepted: Accepted) -> Model:
        await self._live.settled(*_key(accepted))
        self._evictions.forget(*_key(accepted))
        try:
            model = await self._launcher.launch(accepted)
        except TrustError as refusal:
            self._watch.note(_key(accepted), refusal)
            raise
        self._watch.note(_key(accepted), None)
        return model

    async def _switch(self, model: Model) -> None:
        """Let a ready model serve; those that the policy leaves no place drain in the background."""
        turns = (await asyncio.to_thread(self._registry.intended)).get(model.name, {})
        ready = {other.version for other in self._live.ready(model.name)}
        others = ({version for version, turn in turns.items() if turn} | ready) - {model.version}
        last_first = sorted(others, key=lambda version: (version in ready, turns.get(version, 0)), reverse=True)
        beside = self.versions(model.name).beside(last_first)
        gone = self._live.switch(model, beside=beside, drain_s=self._settings.drain_s)
        for version in others - beside:
            self._evictions.forget(model.name, version)
        _kept(self._note_ended(gone, f"replaced by version {model.version}"), self._background)
        await asyncio.to_thread(self._registry.intend, model.name, model.version, others - beside)

    async def _unload(self, name: str, version: int | None) -> None:
        self._last.pop(name, None)
        async with self._changing[name]:
            await asyncio.to_thread(self._registry.dismiss, name, version)
            evicted = self._evictions.forget(name, version)
            try:
                await self._take_down(name, version)
            except ModelUnknown:
                if not evicted:
                    raise

    async def _take_down(self, name: str, version: int | None) -> None:
        going = [model for model in self._live.ready(name) if version in (None, model.version)]
        await self._live.unload(name, version, drain_s=self._settings.drain_s)
        await self._note_ended(going, "asked for")

    async def _remove(self, accepted: Accepted) -> None:
        self._last.pop(accepted.name, None)
        key = _key(accepted)
        async with self._changing[accepted.name]:
            if key in self.states():
                await self._take_down(*key)
            await asyncio.to_thread(self._registry.delete, accepted.id)
            self._accepted.discard(key)
            self._evictions.forget(*key)
            self._watch.note(key, None)

    async def _resign(self, accepted: Accepted) -> None:
        self._watch.renew(await asyncio.to_thread(self._registry.standing, accepted))
        turns = (await asyncio.to_thread(self._registry.intended)).get(accepted.name, {})
        if turns.get(accepted.version):
            await self._load(accepted)

    def _resting(self, name: str, version: int) -> IndexEntry:
        refusal = self._watch.refusal(name, version)
        if refusal is not None:
            return IndexEntry(name, version, ModelState.REVOKED, refusal.message)
        if (name, version) not in self._accepted:
            return self._pending.get((name, version)) or IndexEntry(name, version, ModelState.PENDING, "")
        if self._evictions.refusal(name, version):
            return IndexEntry(name, version, ModelState.UNLOADED, REASON)
        left_out = not self.versions(name).takes(version)
        why = "not one of the versions that the operator serves" if left_out else "unloaded"
        return IndexEntry(name, version, ModelState.UNLOADED, why)

    async def _note_ended(self, models: Sequence[Model], reason: str) -> None:
        """Wait for the memory of models that no longer serve, and tell the journal."""
        await self._live.ended(models)
        for model in models:
            if model.state is ModelState.UNLOADED:  # no withdrawal was quicker, which has its own reason
                await self._notes.unloaded(model, reason)

    async def _retire(self, name: str) -> None:
        with suppress(ModelUnknown):  # somebody else unloads it just now
            await self._live.unload(name, drain_s=self._settings.drain_s)

    async def _change(self, change: Coroutine[Any, Any, None], *, wait: bool) -> None:
        """Begin a change, which goes on although the one who waits for it goes away."""
        task = _kept(change, self._background)
        if wait:
            await asyncio.shield(task)
        else:
            task.add_done_callback(report)

    def _wait(self, change: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(change, self._loop).result()


def _kept(work: Coroutine[Any, Any, None], among: "set[asyncio.Task[None]]") -> "asyncio.Task[None]":
    """Work as a task that is kept among others until it ends."""
    task = asyncio.create_task(work)
    among.add(task)
    task.add_done_callback(among.discard)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # told by those who wait for it
    return task


def _key(accepted: Accepted) -> Key:
    return accepted.name, accepted.version


def _waiting(pending: Pending) -> IndexEntry:
    state = ModelState.REVOKED if pending.refused else ModelState.PENDING
    return IndexEntry(pending.name, pending.version, state, pending.detail)
