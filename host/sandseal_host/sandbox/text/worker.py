"""A model's tokenizer and chat template as the host uses them: in a process that may be lost at any time."""

import asyncio
import heapq
import itertools
import json
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from sandseal_host.errors import ModelFailed, ModelInvalid, QueueFull, RequestInvalid, ShuttingDown
from sandseal_host.sandbox.text.files import TextFiles
from sandseal_host.sandbox.text.frames import Kind
from sandseal_host.sandbox.text.process import Lost, TextLimits, TextProcess

_DEFAULT = TextLimits()

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """One model's tokenizer since it was opened.

    Args:
        calls_total: that ended, however they did.
        failed_total: of these, those whose process ended or was ended.
        waiting: calls that wait now, the running one included.
        restarts_total: processes that took another one's place.
    """

    calls_total: int
    failed_total: int
    waiting: int
    restarts_total: int


@dataclass(order=True, slots=True)
class _Call:
    urgency: float
    number: int
    kind: Kind = field(compare=False)
    body: bytes = field(compare=False)
    answer: "Future[list[int]]" = field(default_factory=Future, compare=False)


class TextWorker:
    """Text to tokens, by a publisher's files, in a confined process; one call at a time, the most urgent first.

    Made on any thread but an event loop's, since that waits until the files are read; used on event loops. A call that
    takes too long, or too much memory, ends the process and fails alone: the next one starts another.

    Args:
        label: names the model in errors and logs.
        files: the tokenizer and the template.
        limits: of the process and its calls.

    `tokens` has the bytes of each token by id, `special` the ids of those that are no text.

    Raises:
        ModelInvalid: a file cannot be used within the limits.
        ModelFailed: no process can be had.
    """

    def __init__(self, label: str, files: TextFiles, limits: TextLimits = _DEFAULT) -> None:
        self._label, self._files, self._limits = label, files, limits
        self._guard = threading.Lock()
        self._queue: list[_Call] = []
        self._numbers = itertools.count()
        self._calls = self._failed = self._waiting = self._restarts = 0
        self._closed = False
        self._process: TextProcess | None = None
        # A child dies with the thread that started it, so that is a thread which lives as long as this.
        self._thread = ThreadPoolExecutor(1, "sandseal-text")
        try:
            self._process = process = self._thread.submit(TextProcess, files, limits).result()
        except Lost as lost:
            self._thread.shutdown()
            raise ModelInvalid(f"the tokenizer of {label!r} {lost}", hint=lost.hint) from None
        except BaseException:
            self._thread.shutdown()
            raise
        self.tokens, self.special = process.tokens, process.special
        if process.missing:
            _log.warning("the tokenizer of %s runs without %s here", label, ", ".join(process.missing))

    async def encode(self, text: str, urgency: float = 0.0) -> list[int]:
        """The tokens of a text; names of special tokens in it become these, and none is put before or behind it.

        Args:
            text: any.
            urgency: virtual deadline on the monotonic clock; the earliest is served first.

        Raises:
            InputRefused: the text holds what is no character.
            QueueFull: as many calls wait as may.
            ShuttingDown: this is closed.
            ModelFailed: the tokenizer fails, or needs more than the limits.
        """
        return await self._ask(Kind.ENCODE, text.encode("utf-8", "surrogatepass"), urgency)

    async def chat(self, messages: Sequence[Mapping[str, Any]], urgency: float = 0.0, **options: Any) -> list[int]:
        """The tokens of a conversation, by the publisher's template, which alone makes special ones.

        Args:
            messages: as in OpenAI's API; JSON values.
            urgency: see `encode`.
            options: further variables of the template, such as `tools`; JSON values.

        Raises:
            RequestInvalid: they are not JSON.
            UnsupportedRequest: the model has no chat template.
            InputRefused: the template refuses them.
            QueueFull, ShuttingDown, ModelFailed: as `encode` raises.
        """
        try:
            body = json.dumps([messages, options]).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestInvalid(f"the messages cannot be written as JSON: {error}") from None
        return await self._ask(Kind.CHAT, body, urgency)

    def statistics(self) -> TextStatistics:
        """The counts at this moment."""
        with self._guard:
            return TextStatistics(self._calls, self._failed, self._waiting, self._restarts)

    def close(self) -> None:
        """Refuse what waits, and end the process after the running call; blocks."""
        with self._guard:
            self._closed = True
        self._thread.submit(self._drop).result()
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _ask(self, kind: Kind, body: bytes, urgency: float) -> list[int]:
        call = _Call(urgency, next(self._numbers), kind, body)
        with self._guard:
            if self._closed:
                raise self._closing()
            if self._waiting >= self._limits.max_waiting:
                raise QueueFull(f"{self._waiting} calls of the tokenizer of {self._label!r} wait already")
            self._waiting += 1
            heapq.heappush(self._queue, call)
            self._thread.submit(self._serve)  # whichever is the most urgent by then
        call.answer.add_done_callback(lambda _: self._count(call))
        return await asyncio.wrap_future(call.answer)

    def _serve(self) -> None:
        """Answer the most urgent call, unless its caller has left."""
        with self._guard:
            call = heapq.heappop(self._queue)
        if not call.answer.set_running_or_notify_cancel():
            return
        try:
            call.answer.set_result(self._answer(call))
        except BaseException as error:
            call.answer.set_exception(error)

    def _answer(self, call: _Call) -> list[int]:
        if self._closed:
            raise self._closing()
        try:
            if self._process is None or not self._process.alive():
                self._drop()
                self._restarts += 1
                self._process = TextProcess(self._files, self._limits)
            return self._process.ask(call.kind, call.body)
        except Lost as lost:
            self._failed += 1
            self._drop()
            _log.warning("the tokenizer of %s %s", self._label, lost)
            raise ModelFailed(f"the tokenizer of {self._label!r} {lost}", hint=lost.hint) from None

    def _count(self, call: _Call) -> None:
        call.body = b""  # whose caller has left may stay in the queue for a while
        with self._guard:
            self._waiting -= 1
            self._calls += not call.answer.cancelled()

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _closing(self) -> ShuttingDown:
        return ShuttingDown(f"the tokenizer of {self._label!r} is being unloaded")
