"""A stream's instance: what all have, and one in this process."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Self

from sandseal_host.errors import InputRefused, NotReady
from sandseal_host.sandbox.abi import FIRST, LAST
from sandseal_host.sandbox.guest import Cancelled
from sandseal_host.sandbox.instance import Instance
from sandseal_host.tensors import Tensor

_NEVER = float("inf")

Run = Callable[[Callable[[Cancelled], tuple[Tensor, ...]], float, float], Awaitable[tuple[Tensor, ...]]]
"""What does work in its turn, as `StagePool.run`."""


class Stream(ABC):
    """One instance of a stage, as long as one stream; used on one event loop, one call after another.

    Args:
        name: for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._next = FIRST
        self._closed = False

    async def call(self, inputs: tuple[Tensor, ...], *, last: bool = False) -> tuple[Tensor, ...]:
        """Call the instance; after an error other than a refusal, and after the last call, it is closed.

        Raises:
            NotReady: it is closed.
            QueueFull: there is no room for one more stream, or calls wait as may.
            RequestInvalid, InputRefused, PluginError, ShuttingDown: as `apply` of the stage raises.
        """
        if self._closed:
            raise NotReady(f"{self._name} is closed")
        flags, self._next = self._next | LAST * last, 0
        try:
            outputs = await self._call(inputs, flags)
        except InputRefused:
            raise
        except BaseException:
            self.close()
            raise
        if last:
            self.close()
        return outputs

    @abstractmethod
    async def _call(self, inputs: tuple[Tensor, ...], flags: int) -> tuple[Tensor, ...]:
        """Do one call, in its turn."""

    @abstractmethod
    def close(self) -> None:
        """Let the instance go; a running call is ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PluginStream(Stream):
    """One in this process.

    Args:
        instantiate: makes the instance, on the thread of the first call.
        run: does the calls in their turn.
        parameters: the request's, UTF-8 JSON; the same for all calls.
        urgency: as for `StagePool.apply`.
    """

    def __init__(
        self, instantiate: Callable[[Cancelled], Instance], run: Run, parameters: bytes, urgency: float
    ) -> None:
        super().__init__("this stream")
        self._instantiate, self._run, self._parameters, self._urgency = instantiate, run, parameters, urgency
        self._guard = threading.Lock()
        self._instance: Instance | None = None
        self._cancelled: Cancelled = bool
        self._running = False

    async def _call(self, inputs: tuple[Tensor, ...], flags: int) -> tuple[Tensor, ...]:
        return await self._run(partial(self._work, inputs, flags), self._urgency, _NEVER)

    def close(self) -> None:
        """Drop the instance; a running call is ended first, by its own thread."""
        with self._guard:
            self._closed = True
            if self._instance is not None and not self._running:
                self._instance.close()

    def _work(self, inputs: tuple[Tensor, ...], flags: int, cancelled: Cancelled) -> tuple[Tensor, ...]:
        with self._guard:
            self._cancelled, self._running = cancelled, True
        try:
            if self._instance is None:
                self._instance = self._instantiate(self._unwanted)
            return self._instance.call(inputs, self._parameters, flags=flags)
        finally:
            with self._guard:
                self._running = False
                if self._closed and self._instance is not None:
                    self._instance.close()

    def _unwanted(self) -> bool:
        return self._closed or self._cancelled()
