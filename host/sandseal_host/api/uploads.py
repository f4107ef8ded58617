"""Uploads: the body of a request, as it arrives, into something that reads it on a thread."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import ClientDisconnect

from sandseal_host.api.grant import Grant
from sandseal_host.api.pipe import BodyPipe
from sandseal_host.api.ports import BundleEntry, Bundles
from sandseal_host.api.settings import ApiSettings
from sandseal_host.errors import QueueFull, TooLarge
from sandseal_signing.digest import Readable

_Result = TypeVar("_Result")


class Transfers:
    """Runs a bounded number of readers of bodies, each on a thread of its own, so that slow ones hold up nobody else.

    No token has more than three quarters of the places, so that none can keep the others out.

    Args:
        places: how many.
        idle_s: seconds that a body may stand still before it counts as broken off.
    """

    def __init__(self, places: int, idle_s: float) -> None:
        self._places, self._idle_s = places, idle_s
        self._threads = ThreadPoolExecutor(places, "sandseal-upload")
        self._running: Counter[str] = Counter()

    async def run(
        self, chunks: AsyncIterator[bytes], limit: int, by: Grant, read: Callable[[Readable], _Result]
    ) -> _Result:
        """Hand a body over while it arrives.

        Args:
            limit: how many bytes it may have.
            by: whose body it is.
            read: reads it on a thread; a body that breaks off looks as if it had ended.

        Raises:
            QueueFull: as many are running as may, of this token or of all.
            TooLarge: the body is, and what reads it lets that through.
        """
        self._require_place(by)
        pipe = BodyPipe(2 * self._idle_s)
        pump = asyncio.create_task(self._pump(chunks, pipe, limit))
        self._running[by.id] += 1
        work = asyncio.get_running_loop().run_in_executor(self._threads, read, pipe.reader())
        work.add_done_callback(lambda _: self._ended(by))
        try:
            return await work
        finally:
            pump.cancel()
            pipe.finish()
            await asyncio.gather(pump, return_exceptions=True)  # whatever broke it broke the stream, and that was told

    def _require_place(self, by: Grant) -> None:
        running, own = self._running.total(), self._running[by.id]
        if running >= self._places:
            raise QueueFull(f"{running} uploads are running", retry_after=5.0)
        if own >= max(1, self._places * 3 // 4):
            raise QueueFull(f"{own} uploads of this token are running", retry_after=5.0)

    def _ended(self, by: Grant) -> None:
        self._running[by.id] -= 1
        self._running = +self._running  # forgets those who have none

    async def _pump(self, chunks: AsyncIterator[bytes], pipe: BodyPipe, limit: int) -> None:
        """Move the body into the pipe; whatever goes wrong ends the stream early."""
        total = 0
        error = None
        try:
            while chunk := await self._next(chunks):
                total += len(chunk)
                if total > limit:
                    error = TooLarge(f"the upload has over {limit} bytes", limit=limit)
                    break
                await pipe.feed(chunk)
        except (ClientDisconnect, TimeoutError):
            pass
        finally:
            pipe.finish(error)

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes:
        async with asyncio.timeout(self._idle_s):  # `wait_for` can lose a cancellation
            return await anext(chunks, b"")


class Uploads(Transfers):
    """The uploads of sealed bundles.

    Args:
        bundles: who verifies and keeps what is uploaded.
        settings: how many, how large, how slow.
    """

    def __init__(self, bundles: Bundles, settings: ApiSettings) -> None:
        super().__init__(settings.max_uploads, settings.upload_idle_s)
        self._bundles, self._limit = bundles, settings.max_bundle_bytes

    async def accept(self, chunks: AsyncIterator[bytes], publisher: Grant) -> BundleEntry:
        """Hand a sealed bundle over while it arrives.

        Raises:
            QueueFull: as many uploads are running as may.
            SandsealError: the bundle is refused, too large, or breaks off.
        """
        return await self.run(chunks, self._limit, publisher, lambda stream: self._bundles.accept(stream, publisher))
