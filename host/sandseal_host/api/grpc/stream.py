"""One stream of requests and answers: how many are under way, in what order answers begin, and who waits for whom."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from grpc.aio import ServicerContext

from sandseal_host.api.errors import TooSlow
from sandseal_host.api.grpc.messages import Message
from sandseal_host.api.grpc.status import abort

Put = Callable[[Message], Awaitable[None]]

_WINDOW = 8  # requests that are under way, and answers that wait; more are not read, and not made


class AnswerStream:
    """The answers of a stream on their way to its client.

    They begin in the order of their requests; what follows of a request with several comes when it is there. All wait
    while the client does not read, which ends the stream after some time.

    Args:
        context: the call's.
        slow_s: seconds in which each answer has to be taken.
    """

    def __init__(self, context: ServicerContext, slow_s: float) -> None:
        self._context, self._slow_s = context, slow_s
        self._answers: asyncio.Queue[Message | None] = asyncio.Queue(_WINDOW)
        self._room = asyncio.Semaphore(_WINDOW)

    async def serve(self, requests: AsyncIterator[bytes], answer: Callable[[bytes, Put], Awaitable[None]]) -> None:
        """Answer requests to their end; whatever ends it cancels what is under way.

        Args:
            requests: as they come.
            answer: puts one or more answers to a request; raises nothing.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(requests, answer))
                while (message := await self._answers.get()) is not None:
                    await self._write(message)
        except* TooSlow as slow:  # nothing runs for the client any more, which may take long to hear of it
            await abort(self._context, slow.exceptions[0])

    async def _read(self, requests: AsyncIterator[bytes], answer: Callable[[bytes, Put], Awaitable[None]]) -> None:
        before = asyncio.Event()
        before.set()
        async with asyncio.TaskGroup() as group:
            async for sent in requests:
                await self._room.acquire()
                begun = asyncio.Event()
                task = group.create_task(_run(answer, sent, self._putter(before, begun)))
                task.add_done_callback(lambda _: self._room.release())
                before = begun
        await self._answers.put(None)

    def _putter(self, before: asyncio.Event, begun: asyncio.Event) -> Put:
        """What puts a request's answers, once those to the one before have begun."""

        async def put(message: Message) -> None:
            await before.wait()
            await self._answers.put(message)
            begun.set()

        return put

    async def _write(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._slow_s):
                await self._context.write(message)
        except TimeoutError:
            raise TooSlow("the stream's answers were not read in time") from None


async def _run(answer: Callable[[bytes, Put], Awaitable[None]], sent: bytes, put: Put) -> None:
    await answer(sent, put)
