"""What the host did to models by itself, told to the journal."""

import asyncio
import logging
from typing import Any

from sandseal_host.registry.journal import Journal
from sandseal_host.registry.standing import Standing
from sandseal_host.serving.model import Model
from sandseal_signing.digest import Digest
from sandseal_signing.logentry import Detail, Kind, Subject, sentence

_log = logging.getLogger(__name__)


class Notes:
    """Writes the loads and unloads down, on threads, since the journal waits for the disk; lives on the event loop.

    Args:
        journal: is told of them.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._noting: set[asyncio.Future[None]] = set()

    async def loaded(self, subject: Subject, device: str) -> None:
        """Note that a version serves."""
        await self._note(Kind.LOAD, subject, Detail(device=device))

    async def unloaded(self, model: Model, reason: str) -> None:
        """Note that a model's memory is back."""
        await self._note(Kind.UNLOAD, _subject(model), Detail(reason=reason))

    def withdrawn(self, standing: Standing, reason: str) -> None:
        """Note soon that a bundle is no longer trusted."""
        self._unloaded_soon(Subject(standing.id, *standing.key), reason)

    def failed(self, model: Model, reason: str) -> None:
        """Note soon that a model's files are no longer what was signed."""
        self._unloaded_soon(_subject(model), reason)

    async def finish(self) -> None:
        """Wait for what is still to be written."""
        await asyncio.gather(*self._noting, return_exceptions=True)

    def _unloaded_soon(self, subject: Subject, reason: str) -> None:
        noting = asyncio.ensure_future(self._note(Kind.UNLOAD, subject, Detail(reason=sentence(reason))))
        self._noting.add(noting)
        noting.add_done_callback(self._noting.discard)
        noting.add_done_callback(report)

    async def _note(self, kind: Kind, subject: Subject, detail: Detail) -> None:
        await asyncio.to_thread(self._journal.record, kind, "host", subject, detail)


def report(task: "asyncio.Future[Any]") -> None:
    """Log how a change that nobody waited for ended."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("in the background: %s", error)


def _subject(model: Model) -> Subject:
    return Subject(Digest(model.bundle_id), model.name, model.version)
