"""An inference on uvicorn's protocol without a task: decoded when its body is there, written when its batch has run.

It stands where uvicorn keeps the cycle of a connection's present request, and shows as much of one as uvicorn looks
at: `response_complete`, `disconnected`, `keep_alive`.
"""

import asyncio
from collections.abc import Callable

from sandseal_host.api.answer import Answer
from sandseal_host.api.generation import begin_infer
from sandseal_host.api.visit import Visit
from sandseal_host.errors import ClientGone
from sandseal_host.serving.ports import Cancellable
from sandseal_host.serving.request import Response


class DirectCall:
    """One request; what serving calls a `Waiter`.

    Args:
        visit: has entered.
        keep_alive: whether the connection goes on after it.
        write: sends the answer.
    """

    __slots__ = ("_pieces", "_visit", "_work", "_write", "disconnected", "keep_alive", "response_complete")

    def __init__(self, visit: Visit, keep_alive: bool, write: "Callable[[DirectCall, Answer], None]") -> None:
        self._visit, self.keep_alive, self._write = visit, keep_alive, write
        self._pieces: list[bytes] = []
        self._work: Cancellable | None = None
        self.response_complete = self.disconnected = False

    def take(self, piece: bytes) -> None:
        """Keep a piece of the body."""
        self._pieces.append(piece)

    def end(self) -> None:
        """Ask the model; all pieces were taken."""
        self.start(b"".join(self._pieces))

    def start(self, body: bytes) -> None:
        """Ask the model."""
        visit = self._visit
        try:
            visit.read(memoryview(body))
            model, request = visit.bind()
            self._work = begin_infer(model, request, self)
        except Exception as error:
            self.set_exception(error)

    def leave(self) -> None:
        """Give up: the client has gone."""
        if not self.done():
            self.disconnected = True
            if self._work is not None:
                self._work.cancel()
                self._work = None
            self._visit.fail(ClientGone("the client closed the connection before its answer"))

    def done(self) -> bool:
        """Whether nobody waits any more."""
        return self.response_complete or self.disconnected

    def set_result(self, result: Response) -> None:
        """Answer with the response."""
        if not self._visit.is_quick(result):
            self._work = asyncio.create_task(self._render_on_thread(result))
            return
        try:
            answer = self._visit.render(result)
        except Exception as error:
            self.set_exception(error)
        else:
            self._end(self._visit.count(answer))

    def set_exception(self, exception: Exception) -> None:
        """Answer with the problem."""
        self._end(self._visit.fail(exception))

    async def _render_on_thread(self, result: Response) -> None:
        try:
            answer = await asyncio.to_thread(self._visit.render, result)
        except Exception as error:
            self.set_exception(error)
        else:
            self._end(self._visit.count(answer))

    def _end(self, answer: Answer) -> None:
        self._work = None  # which knows this call: else both would wait for the garbage collector, with all they hold
        self._write(self, answer)
