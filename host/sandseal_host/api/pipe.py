"""A bounded pipe from the event loop to a thread that reads like a file."""

import asyncio
import io
import queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNKS = 16  # servers hand out some 64 KiB at a time
_BUFFER = 256 * 1024


class BodyPipe(io.RawIOBase):
    """Written to on the loop, read on one thread.

    The reader sees the end when the writer finishes, breaks off, or says nothing for `patience_s`: a lost client makes
    a short read, never a hang.

    Args:
        patience_s: the longest that a read waits for the next chunk, in seconds.
    """

    def __init__(self, patience_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_CHUNKS)
        self._chunks: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self._patience_s = patience_s
        self._rest = memoryview(b"")
        self._ended = False

    def reader(self) -> io.BufferedReader:
        """The reading end, as the binary file that it looks like."""
        return io.BufferedReader(self, _BUFFER)

    async def feed(self, chunk: bytes) -> None:
        """Hand a chunk over; waits while the reader is behind."""
        if chunk:
            await self._room.acquire()
            self._chunks.put(chunk)

    def finish(self, error: Exception | None = None) -> None:
        """End the stream; with an error the reader gets that instead of the end."""
        self._chunks.put(error or b"")

    def readable(self) -> bool:
        """That it can be read."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill `buffer` as far as the next chunk goes; 0 at the end."""
        if not self._rest and not self._ended:
            self._rest = memoryview(self._next())
            self._ended = not self._rest
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def _next(self) -> bytes:
        try:
            chunk = self._chunks.get(timeout=self._patience_s)
        except queue.Empty:
            return b""
        if isinstance(chunk, Exception):
            self._ended = True
            raise chunk
        if chunk:
            self._loop.call_soon_threadsafe(self._room.release)
        return chunk
