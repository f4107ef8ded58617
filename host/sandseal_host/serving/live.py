"""The models that this host serves: one map, swapped whole."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sandseal_host.errors import HostError, ModelUnknown, NotReady, Revoked
from sandseal_host.serving.model import Model
from sandseal_host.serving.states import ModelState


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the repository index.

    Args:
        name: of the model.
        version: of it.
        state: the present one.
        reason: why it failed or was revoked; empty otherwise.
    """

    name: str
    version: int
    state: ModelState
    reason: str


_IDLE_S = 5.0
_Versions = Mapping[int, Model]
_LOADED = (ModelState.READY, ModelState.DRAINING)
_ENDED = (ModelState.FAILED, ModelState.REVOKED)


class LiveModels:
    """Every model that is loaded, loading, draining, failed or revoked, by name and version; lives on the event loop.

    Readers see the map before or after a change, never within one.
    """

    def __init__(self) -> None:
        self._models: Mapping[str, _Versions] = {}
        self._serving: Mapping[str, Model] = {}
        self._retiring: dict[Model, asyncio.Task[None]] = {}

    def get(self, name: str, version: int | None = None) -> Model:
        """The model to send a request to; call `infer` in the same turn of the loop, or within `Model.hold`.

        Args:
            name: of the model.
            version: of it; None = the newest that is ready.

        Raises:
            ModelUnknown: no such model or version.
            NotReady: it is known but does not serve.
            Revoked: it is known and will not serve again.
        """
        model = self._serving.get(name)
        if model is None or (version is not None and version != model.version):
            model = self._other(name, version)
        if model.state is not ModelState.READY:
            raise _not_serving(model)
        return model

    def pinned(self, name: str, bundle_id: str) -> Model:
        """The model of a name that came in this bundle; otherwise as `get`.

        Raises:
            NotReady: it is not loaded, or does not serve.
            Revoked: it will not serve again.
        """
        found = [model for model in self._versions(name) if model.bundle_id == bundle_id]
        if not found:
            raise NotReady(f"bundle {bundle_id} of {name!r} is not loaded", model=name)
        if found[0].state is not ModelState.READY:
            raise _not_serving(found[0])
        return found[0]

    def pipelines(self) -> set[str]:
        """The names under which pipelines are known, which ask other models until their last request is answered."""
        return {name for name in self._models for model in self._versions(name) if model.manifest.pipeline}

    def announce(self, model: Model) -> None:
        """Show a model in the index while it loads, or after it failed."""
        self._put(model)

    async def replace(self, model: Model, *, drain_s: float | None = None) -> None:
        """Let a ready model serve in place of all others of its name; returns when their memory is back.

        Raises:
            NotReady, Revoked: see `switch`.
        """
        await self.ended(self.switch(model, drain_s=drain_s))

    def switch(self, model: Model, *, beside: Collection[int] = (), drain_s: float | None = None) -> list[Model]:
        """Let a ready model serve; others of its name answer what they have, then give their memory back.

        Args:
            model: ready.
            beside: the other versions that go on serving.
            drain_s: seconds that the others get for what waits in them.

        Returns:
            The others that no longer serve; see `ended`.

        Raises:
            NotReady: the model is not ready, so the one that serves stays.
            Revoked: it was, until a moment ago.
        """
        if model.state is not ModelState.READY:
            raise _not_serving(model)
        known = {*self._versions(model.name), *filter(None, [self._serving.get(model.name)])} - {model}
        self._put(model)
        stay = {*beside} - {model.version}
        gone = [m for m in known if m.state in _LOADED and m.version not in stay]
        for old in gone:
            self._retire_soon(old, drain_s)
        self._elect(model.name)
        return gone

    def ready(self, name: str) -> list[Model]:
        """The versions that serve, the newest first."""
        ready = [m for m in self._versions(name) if m.state is ModelState.READY and m not in self._retiring]
        return sorted(ready, key=lambda model: (model.accepted_at, model.version), reverse=True)

    async def ended(self, models: Collection[Model]) -> None:
        """Wait until the memory of models that no longer serve is back; joined by all who wait for it."""
        ending = [self._retiring[model] for model in models if model in self._retiring]
        await asyncio.gather(*map(asyncio.shield, ending))

    async def settled(self, name: str | None = None, version: int | None = None) -> None:
        """Wait until nothing of this name and version, or nothing at all, is on its way out."""
        await self.ended([m for m in self._retiring if name in (None, m.name) and version in (None, m.version)])

    def revoke(self, bundle_id: str, reason: str) -> None:
        """Withdraw a bundle's model because it is no longer trusted."""
        self.withdraw(bundle_id, Revoked(reason))

    def withdraw(self, bundle_id: str, error: HostError) -> list[Model]:
        """Refuse what a bundle's model was asked and will be asked; when its running batches end, its memory is back.

        The model stays in the index, with the reason, until it is unloaded by name or loaded again.

        Args:
            error: see `Model.withdraw`.

        Returns:
            The models that this took out of service.
        """
        known = [model for versions in self._models.values() for model in versions.values()]
        found = [m for m in known if m.bundle_id == bundle_id and m.state in _LOADED]
        for model in found:
            model.withdraw(error)
            self._retire_soon(model, None)
            self._elect(model.name)
        return found

    async def unload(self, name: str, version: int | None = None, *, drain_s: float | None = None) -> None:
        """Stop serving a model, or one version of it; returns when its memory is back.

        Raises:
            ModelUnknown: no such model or version.
            NotReady: it is being loaded.
        """
        models = [m for m in self._versions(name) if version in (None, m.version)]
        if not models:
            raise _unknown(name, version)
        for model in models:
            if model.state not in (*_LOADED, *_ENDED) and model not in self._retiring:
                raise NotReady(f"{model!r} is {model.state}", model=name, state=str(model.state))
        for model in models:
            self._retire_soon(model, drain_s)
        self._elect(name)
        await self.ended(models)
        for model in models:
            self._remove(model)

    def idlest(self, among: Collection[tuple[str, int]]) -> Model | None:
        """The ready model that has been idle longest, for more than a few seconds; None where each was in use lately.

        Args:
            among: names and versions.
        """
        known = [self._models.get(name, {}).get(version) for name, version in among]
        idle = [m for m in known if m is not None and m.state is ModelState.READY and m.idle_s > _IDLE_S]
        return max(idle, key=lambda model: model.idle_s, default=None)

    def index(self) -> tuple[IndexEntry, ...]:
        """All models by name and version, with their states."""
        return tuple(
            IndexEntry(m.name, m.version, m.state, m.reason)
            for name in sorted(self._models)
            for _, m in sorted(self._models[name].items())
        )

    def _versions(self, name: str) -> list[Model]:
        return list(self._models.get(name, {}).values())

    def _other(self, name: str, version: int | None) -> Model:
        """A model that does not serve by default: the version asked for, or the newest, to say what it is doing."""
        versions = self._models.get(name, {})
        key = version if version is not None else max(versions, default=0)
        if key not in versions:
            raise _unknown(name, version)
        return versions[key]

    def _elect(self, name: str) -> None:
        """Let the newest that is ready answer for its name."""
        rest = {other: model for other, model in self._serving.items() if other != name}
        ready = self.ready(name)
        self._serving = {**rest, name: ready[0]} if ready else rest

    def _put(self, model: Model) -> None:
        versions = {**self._models.get(model.name, {}), model.version: model}
        self._models = {**self._models, model.name: versions}

    def _remove(self, model: Model) -> None:
        versions = {v: m for v, m in self._models.get(model.name, {}).items() if m is not model}
        rest = {name: old for name, old in self._models.items() if name != model.name}
        self._models = {**rest, model.name: versions} if versions else rest

    def _retire_soon(self, model: Model, drain_s: float | None) -> None:
        """Drain, unload and forget; not stopped when one of those who wait for it goes away."""
        if model not in self._retiring:
            self._retiring[model] = asyncio.create_task(self._end(model, drain_s))

    async def _end(self, model: Model, drain_s: float | None) -> None:
        try:
            if model.state is ModelState.READY or model.withdrawn:
                await model.drain(drain_s)
                await model.unload()
            if not model.withdrawn:
                self._remove(model)
        finally:
            del self._retiring[model]


def _not_serving(model: Model) -> HostError:
    refusal = model.refusal()
    return refusal or NotReady(f"{model!r} is {model.state}", model=model.name, state=str(model.state))


def _unknown(name: str, version: int | None) -> ModelUnknown:
    what = f"model {name!r}" + (f" version {version}" if version is not None else "")
    return ModelUnknown(f"there is no {what}", model=name)
