"""Models that gave their memory to others, and come back when there is room."""

import logging
from collections.abc import Collection, Mapping

from sandseal_host.errors import Evicted, ModelUnknown, NotReady
from sandseal_host.lifecycle.notes import Notes
from sandseal_host.lifecycle.watch import Key
from sandseal_host.serving.live import LiveModels

LOOK_S = 60.0
"""Seconds between two looks whether there is room."""

REASON = "made room for another model"

_log = logging.getLogger(__name__)


class Evictions:
    """Unloads idle models, and knows which of them should serve again; lives on the event loop.

    Args:
        live: the models.
        notes: told of every model that goes.
        drain_s: seconds that it has for what it was asked.
    """

    def __init__(self, live: LiveModels, notes: Notes, drain_s: float) -> None:
        self._live, self._notes, self._drain_s = live, notes, drain_s
        self._evicted: dict[Key, int] = {}  # with the bytes that each took of a device; the last is the latest

    async def evict(self, holders: Collection[Key]) -> bool:
        """Unload the one of these that was idle longest; returns when its memory is back, False where none is idle."""
        model = self._live.idlest(holders)
        if model is None:
            return False
        key, held = (model.name, model.version), max(model.served().resident.values(), default=0)
        _log.warning("%r is unloaded: another model needs its memory", model)
        self._evicted[key] = held
        try:
            await self._live.unload(*key, drain_s=self._drain_s)
        except (ModelUnknown, NotReady):  # somebody else unloads it just now
            self.forget(*key)
        else:
            await self._notes.unloaded(model, REASON)
        return True

    def waiting(self) -> Mapping[Key, int]:
        """Who waits for room, the latest first, with the bytes that each took of a device."""
        return dict(reversed(self._evicted.items()))

    def forget(self, name: str, version: int | None = None) -> bool:
        """Wait no more for a version, or for all of a model's: it is loaded, or is not to serve; False if none did."""
        known = self._of(name, version)
        for key in known:
            del self._evicted[key]
        return bool(known)

    def refusal(self, name: str, version: int | None) -> Evicted | None:
        """Why a version, or whatever there is of a model, does not answer; None where it did not make room."""
        known = self._of(name, version)
        if not known:
            return None
        return Evicted(f"model {name!r} version {max(known)[1]} {REASON}", retry_after=LOOK_S, model=name)

    def _of(self, name: str, version: int | None) -> list[Key]:
        return [key for key in self._evicted if key[0] == name and version in (None, key[1])]
