"""One answer on its way to a client, a piece at a time; its buffer is bounded."""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from sandseal_host.serving.generation.request import Piece, StreamTimings, Usage

BUFFER = 32
"""Pieces that may wait to be read; while so many do, the stream pauses, and its batch goes on without it."""


class Stream:
    """An async iterator of pieces; lives on one event loop, and is ended by whoever stops reading.

    A reader that breaks off must `cancel`, which leaving a `with` block does too: its slot is free within one step.

    Args:
        prompt_tokens: how many were sent.
        on_read: called after each piece that was read.
        on_end: called once, when nothing more will come, or nobody wants it.
    """

    def __init__(self, prompt_tokens: int, on_read: Callable[[], None], on_end: Callable[[], None]) -> None:
        self._on_read, self._on_end = on_read, on_end
        self._pieces: deque[Piece] = deque()
        self._error: Exception | None = None
        self._ended = False  # nothing more will come
        self._arrived = asyncio.Event()
        self.usage = Usage(prompt_tokens)
        self.timings = StreamTimings()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        """The next piece.

        Raises:
            HostError: why there is no further one, though the answer is not complete.
        """
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        piece = self._pieces.popleft()
        self._on_read()
        return piece

    def cancel(self) -> None:
        """Want no more; what was not read is dropped."""
        self._pieces.clear()
        if not self._ended:
            self._end()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come than what waits to be read."""
        return self._ended

    def put(self, piece: Piece, usage: Usage, timings: StreamTimings) -> None:
        """Take the next piece from the lane, with the figures so far; on the event loop."""
        if self._ended:
            return
        self.usage, self.timings = usage, timings
        self._pieces.append(piece)
        if piece.finish is not None:
            self._end()
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        """End with an error, behind what waits to be read; on the event loop."""
        if not self._ended:
            self._error = error
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()
        self._on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
