"""Uploads: the body of a request, as it arrives, into something that reads it on a thread."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import ClientDisconnect

from sandseal_host.api.grant import Grant
from sandseal_host.api.pipe import BodyPipe
from sandseal_host.api.ports import BundleEntry, Bundles
from sandseal_host.api.settings import ApiSettings
from sandseal_host.errors import QueueFull, TooLarge


class Uploads:
    """Runs a bounded number of uploads, each on a thread of its own, so that slow ones hold up nobody else.

    Args:
        bundles: who verifies and keeps what is uploaded.
        settings: how many, how large, how slow.
    """

    def __init__(self, bundles: Bundles, settings: ApiSettings) -> None:
        self._bundles, self._settings = bundles, settings
        self._threads = ThreadPoolExecutor(settings.max_uploads, "sandseal-upload")
        self._running = 0

    async def accept(self, chunks: AsyncIterator[bytes], publisher: Grant) -> BundleEntry:
        """Hand a sealed bundle over while it arrives.

        Raises:
            QueueFull: as many uploads are running as may.
            SandsealError: the bundle is refused, too large, or breaks off.
        """
        if self._running >= self._settings.max_uploads:
            raise QueueFull(f"{self._running} uploads are running", retry_after=5.0)
        pipe = BodyPipe(2 * self._settings.upload_idle_s)
        pump = asyncio.create_task(self._pump(chunks, pipe))
        self._running += 1
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._bundles.accept, pipe.reader(), publisher)
        work.add_done_callback(self._ended)
        try:
            return await work
        finally:
            pump.cancel()
            pipe.finish()
            await asyncio.gather(pump, return_exceptions=True)  # whatever broke it broke the stream, and that was told

    def _ended(self, _: object) -> None:
        self._running -= 1

    async def _pump(self, chunks: AsyncIterator[bytes], pipe: BodyPipe) -> None:
        """Move the body into the pipe; whatever goes wrong ends the stream early."""
        limit, total = self._settings.max_bundle_bytes, 0
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
        async with asyncio.timeout(self._settings.upload_idle_s):  # `wait_for` can lose a cancellation
            return await anext(chunks, b"")
