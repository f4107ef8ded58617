"""Whether clients are still there while their requests wait: work for one that has gone is cancelled."""

import asyncio
from time import monotonic
from types import TracebackType
from typing import Any, cast

from sandseal_host.api.exchange import Exchange
from sandseal_host.errors import ClientGone

_PATIENCE_S = 0.02  # a busy host answers within some milliseconds; a watcher each would cost a tenth of its time


class Presence:
    """Watches the clients of one event loop; one timer looks after all of them, so that quick answers cost nothing."""

    def __init__(self) -> None:
        self.waiting: set[Wait] = set()
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, exchange: Exchange, since: float) -> "Wait":
        """A context whose body is cancelled when the exchange's client goes away.

        Args:
            exchange: whose body has been read.
            since: when its request arrived, in seconds on the monotonic clock.
        """
        if self._timer is None:
            self._look_later()
        return Wait(self, exchange, since)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE_S, self._look)

    def _look(self) -> None:
        """Put a watcher on every request that has waited for long enough."""
        self._timer = None
        late = monotonic() - _PATIENCE_S
        for wait in self.waiting:
            if wait.since <= late:
                wait.watch()
        if self.waiting:
            self._look_later()


class Wait:
    """One request's wait for its answer."""

    __slots__ = ("_exchange", "_gone", "_presence", "_task", "_watcher", "since")

    def __init__(self, presence: Presence, exchange: Exchange, since: float) -> None:
        self._presence, self._exchange, self.since = presence, exchange, since
        self._gone = False
        self._watcher: asyncio.Task[None] | None = None
        self._task = cast("asyncio.Task[Any]", exchange.task or asyncio.current_task())

    def __enter__(self) -> None:
        self._presence.waiting.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._presence.waiting.discard(self)
        if self._watcher is not None:
            self._watcher.cancel()
        if self._gone and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise ClientGone("the client closed the connection before its answer") from None

    def watch(self) -> None:
        """Look out for the client from now on."""
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await self._exchange.wait_disconnected()
        self._gone = True
        self._task.cancel()
