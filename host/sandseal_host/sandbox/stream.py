"""A stream's instance: what all have, and one in this process."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Self

from sandseal_host.errors import InputRefused, NotReady
from sandseal_host.sandbox.abi import FIRST, LAST
from sandseal_host.sandbox.guest import Cancelled
from sandseal_host.sandbox.instance import Instance
from sandseal_host.sandbox.stream_seats import StreamSeats
from sandseal_host.tensors import Tensor

_NEVER = float("inf")

Run = Callable[[Callable[[Cancelled], tuple[Tensor, ...]], float, float], Awaitable[tuple[Tensor, ...]]]
"""What does work in its turn, as `StagePool.run`."""


class Stream(ABC):
    """One instance of a stage, as long as one stream; used on one event loop, one call after another.

    Args:
        name: for messages.
        target_s: seconds from a call's arrival to its virtual deadline.
    """

    def __init__(self, name: str, target_s: float) -> None:
        self._name, self._target_s = name, target_s
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
            outputs = await self._call(inputs, time.monotonic() + self._target_s, flags)
        except InputRefused:
            raise
        except BaseException:
            self.close()
            raise
        if last:
            self.close()
        return outputs

    @abstractmethod
    async def _call(self, inputs: tuple[Tensor, ...], urgency: float, flags: int) -> tuple[Tensor, ...]:
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
        seats: where it has one while it has its instance.
        parameters, target_s, tenant: see `WorkerStage.stream`.
    """

    def __init__(
        self,
        instantiate: Callable[[Cancelled], Instance],
        run: Run,
        seats: StreamSeats,
        parameters: bytes,
        target_s: float,
        tenant: str,
    ) -> None:
        super().__init__("this stream", target_s)
        self._instantiate, self._run, self._parameters = instantiate, run, parameters
        self._seats, self._tenant = seats, tenant
        self._guard = threading.Lock()
        self._instance: Instance | None = None
        self._cancelled: Cancelled = bool
        self._running = False

    async def _call(self, inputs: tuple[Tensor, ...], urgency: float, flags: int) -> tuple[Tensor, ...]:
        return await self._run(partial(self._work, inputs, flags), urgency, _NEVER)

    def close(self) -> None:
        """Drop the instance; a running call is ended first, by its own thread."""
        with self._guard:
            self._closed = True
            if not self._running:
                self._drop()

    def _work(self, inputs: tuple[Tensor, ...], flags: int, cancelled: Cancelled) -> tuple[Tensor, ...]:
        with self._guard:
            if self._closed:
                raise NotReady(f"{self._name} is closed")
            self._cancelled, self._running = cancelled, True
        try:
            if self._instance is None:
                self._instance = self._make()
            return self._instance.call(inputs, self._parameters, flags=flags)
        finally:
            with self._guard:
                self._running = False
                if self._closed:
                    self._drop()

    def _make(self) -> Instance:
        self._seats.take(self._tenant)
        try:
            return self._instantiate(self._unwanted)
        except BaseException:
            self._seats.leave(self._tenant)
            raise

    def _drop(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()
            self._seats.leave(self._tenant)

    def _unwanted(self) -> bool:
        return self._closed or self._cancelled()
