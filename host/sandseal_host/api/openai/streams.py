"""The streams of one request, which begin and end together."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

from sandseal_host.serving.generation.request import Piece
from sandseal_host.serving.generation.stream import Stream


class Streams:
    """Several answers to one or more prompts, as many to each; leaving the `with` block cancels what still runs.

    Args:
        streams: those of the first prompt, then those of the next.
        each: how many a prompt has.
    """

    def __init__(self, streams: Sequence[Stream], each: int) -> None:
        self._streams, self._each = streams, each

    def __enter__(self) -> "Streams":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Want no more of any."""
        for stream in self._streams:
            stream.cancel()

    async def pieces(self) -> AsyncGenerator[tuple[int, Piece], None]:
        """The pieces of all as they come, each with the number of its stream.

        Raises:
            HostError: one of the streams failed.
        """
        if len(self._streams) == 1:
            async for piece in self._streams[0]:
                yield 0, piece
            return
        async with aclosing(_merged(self._streams)) as merged:
            async for numbered in merged:
                yield numbered

    def timings(self) -> Mapping[str, float]:
        """Seconds of the first stream's way so far."""
        return self._streams[0].timings.table()

    def usage(self) -> dict[str, Any]:
        """Tokens so far, in OpenAI's words; a prompt counts once, however many answers it has."""
        firsts = [stream.usage for stream in self._streams[:: self._each]]
        sent = sum(usage.prompt_tokens for usage in firsts)
        made = sum(stream.usage.completion_tokens for stream in self._streams)
        return {
            "prompt_tokens": sent,
            "completion_tokens": made,
            "total_tokens": sent + made,
            "prompt_tokens_details": {"cached_tokens": sum(usage.cached_tokens for usage in firsts)},
        }


async def _merged(streams: Sequence[Stream]) -> AsyncGenerator[tuple[int, Piece], None]:
    waiting = {asyncio.ensure_future(_next(stream)): number for number, stream in enumerate(streams)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                number = waiting.pop(task)
                if (piece := task.result()) is not None:
                    yield number, piece
                    waiting[asyncio.ensure_future(_next(streams[number]))] = number
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)  # some may have failed as well


async def _next(stream: Stream) -> Piece | None:
    return await anext(stream, None)
