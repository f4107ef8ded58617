"""The versions that were accepted, from a load to the return of their memory."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from sandseal_host.api.ports import HostState, ModelEntry
from sandseal_host.errors import ModelUnknown
from sandseal_host.lifecycle.notes import Notes, report
from sandseal_host.lifecycle.watch import Key, TrustWatch
from sandseal_host.loader import Loader
from sandseal_host.registry.acceptance import Accepted
from sandseal_host.registry.pending import Pending
from sandseal_host.registry.receipts import ReceiptDesk
from sandseal_host.registry.registry import Registry
from sandseal_host.registry.standing import Standing
from sandseal_host.serving.live import IndexEntry, LiveModels
from sandseal_host.serving.model import Model, ModelState
from sandseal_host.settings import Settings
from sandseal_signing.errors import SandsealError, TrustError

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class ModelKeeper:
    """Brings accepted versions up and down, one change of a name at a time (api.ports.Models, Lifecycle).

    Lives on the event loop; the methods that say that they block are for worker threads.

    Args:
        registry: the bundles, and which versions should serve.
        loader: builds models out of bundles.
        live: the models.
        watch: admits what is trusted, and remembers what is not.
        receipts: told of every bundle before it serves.
        notes: told of every load and unload.
        settings: the device, and how long a model drains.
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
        settings: Settings,
    ) -> None:
        self._registry, self._loader, self._live = registry, loader, live
        self._watch, self._receipts, self._notes, self._settings = watch, receipts, notes, settings
        self.state = HostState.STARTING
        self._loop = asyncio.get_running_loop()
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._accepted = {_key(accepted) for accepted in registry.list()}
        self._pending: Mapping[Key, IndexEntry] = {}
        self.look_at_pending()
        watch.changed = self.look_at_pending

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

    def states(self) -> Mapping[Key, ModelState]:
        """The states of the versions that are loaded or were, until they are unloaded by name."""
        return {(entry.name, entry.version): entry.state for entry in self._live.index()}

    async def load(self, name: str, version: int | None, *, wait: bool) -> None:
        """Verify, build and serve an accepted version; the one that serves now answers until it is ready."""
        accepted = await asyncio.to_thread(self._registry.find, name, version)
        await _change(self._load(accepted), wait=wait)

    async def unload(self, name: str, version: int | None, *, wait: bool) -> None:
        """Stop serving a model; it stays accepted, and is not loaded at the next start."""
        if not any(known == name and version in (None, number) for known, number in self.states()):
            raise ModelUnknown(f"there is no loaded model {name!r}" + (f" version {version}" if version else ""))
        await _change(self._unload(name, version), wait=wait)

    async def restore(self) -> None:
        """Bring back what was serving; a model that no longer loads is reported, and the others serve."""
        for name, version in (await asyncio.to_thread(self._registry.intended)).items():
            try:
                await self.load(name, version, wait=True)
            except SandsealError as error:
                _log.error("%s version %s does not load: %s", name, version, error.message)

    async def stop(self) -> None:
        """Drain and unload every model; all of them are brought back at the next start."""
        for name in sorted({entry.name for entry in self._live.index()}):
            await self._live.unload(name, drain_s=self._settings.drain_s)
        await self._notes.finish()

    def take_in(self, taken: Accepted | Pending) -> None:
        """Know of a bundle that was just taken in, and serve it where it is the newest of its name; blocks."""
        self.look_at_pending()
        if isinstance(taken, Pending):
            return
        self._accepted.add(_key(taken))
        if taken == self._registry.find(taken.name):  # the newest is what a push puts into service
            self._wait(self._load(taken))

    def resign(self, accepted: Accepted) -> None:
        """Judge a version by its signatures of now; one that should serve and was refused is loaded. Blocks."""
        self._wait(self._resign(accepted))

    def remove(self, accepted: Accepted) -> None:
        """Unload a version if it is loaded, and forget its bundle; blocks."""
        key = _key(accepted)
        if key in self.states():
            self._wait(self._unload(*key))
        self._registry.delete(accepted.id)
        self._accepted.discard(key)
        self._watch.note(key, None)

    def enforce(self) -> Sequence[tuple[Standing, str]]:
        """Take what the policy refuses now out of service, and say why; blocks."""
        return self._wait(self._watch.enforce())

    def look_at_pending(self) -> None:
        """Show the bundles that are pending now in the index, and which of them wait for nothing any more; blocks."""
        doomed_first = sorted(self._registry.pending(), key=lambda pending: not pending.refused)
        self._pending = {(pending.name, pending.version): _waiting(pending) for pending in doomed_first}

    async def _load(self, accepted: Accepted) -> None:
        async with self._changing[accepted.name]:
            serving = self._serving(accepted.name)
            if serving is not None and serving.version == accepted.version:
                return
            try:
                await self._bring_up(accepted)
            except TrustError as refusal:
                self._watch.note(_key(accepted), refusal)
                raise
            self._watch.note(_key(accepted), None)
        await self._notes.loaded(accepted.subject, self._settings.device)

    async def _bring_up(self, accepted: Accepted) -> None:
        generation = self._watch.generation
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

    async def _resign(self, accepted: Accepted) -> None:
        self._watch.renew(await asyncio.to_thread(self._registry.standing, accepted))
        if (await asyncio.to_thread(self._registry.intended)).get(accepted.name) == accepted.version:
            await self._load(accepted)

    def _resting(self, name: str, version: int) -> IndexEntry:
        refusal = self._watch.refusal(name, version)
        if refusal is not None:
            return IndexEntry(name, version, ModelState.REVOKED, refusal.message)
        if (name, version) not in self._accepted:
            return self._pending.get((name, version)) or IndexEntry(name, version, ModelState.PENDING, "")
        return IndexEntry(name, version, ModelState.UNLOADED, "unloaded")

    def _serving(self, name: str) -> Model | None:
        try:
            return self._live.get(name)
        except SandsealError:
            return None

    async def _note_unloaded(self, model: Model | None, reason: str) -> None:
        if model is not None and model.state is ModelState.UNLOADED:
            await self._notes.unloaded(model, reason)

    def _wait(self, change: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(change, self._loop).result()


async def _change(change: Coroutine[Any, Any, None], *, wait: bool) -> None:
    task = asyncio.ensure_future(change)
    if wait:
        await task
    else:
        task.add_done_callback(report)


def _key(accepted: Accepted) -> Key:
    return accepted.name, accepted.version


def _waiting(pending: Pending) -> IndexEntry:
    state = ModelState.REVOKED if pending.refused else ModelState.PENDING
    return IndexEntry(pending.name, pending.version, state, pending.detail)
