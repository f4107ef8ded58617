"""Whether clients are still there while their requests wait: work for one that has gone is cancelled."""

import asyncio
from collections.abc import Awaitable
from time import monotonic
from typing import Any, TypeVar, cast

from sandseal_host.api.exchange import Exchange
from sandseal_host.errors import ClientGone

T = TypeVar("T")

_PATIENCE_S = 0.005  # requests that are answered sooner are not worth a watcher


class Presence:
    """Watches the clients of one event loop; one timer looks after all of them, so that quick answers cost nothing."""

    def __init__(self) -> None:
        self._waiting: dict[Exchange, tuple[float, asyncio.Task[Any]]] = {}
        self._watchers: dict[Exchange, asyncio.Task[None]] = {}
        self._gone: set[Exchange] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def keep(self, exchange: Exchange, work: Awaitable[T], since: float) -> T:
        """Await `work`, but cancel it when the client goes away.

        Args:
            exchange: whose client.
            work: what it waits for.
            since: when its request arrived, in seconds on the monotonic clock.

        Raises:
            ClientGone: it went.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._waiting[exchange] = (since, task)
        if self._timer is None:
            self._look_later()
        try:
            return await work
        except asyncio.CancelledError:
            if exchange not in self._gone:
                raise
            task.uncancel()
            raise ClientGone("the client closed the connection before its answer") from None
        finally:
            del self._waiting[exchange]
            self._gone.discard(exchange)
            if watcher := self._watchers.pop(exchange, None):
                watcher.cancel()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE_S, self._look)

    def _look(self) -> None:
        """Put a watcher on every request that has waited for long enough."""
        self._timer = None
        late = monotonic() - _PATIENCE_S
        for exchange, (since, task) in self._waiting.items():
            if since <= late and exchange not in self._watchers:
                self._watchers[exchange] = asyncio.create_task(self._watch(exchange, task))
        if self._waiting:
            self._look_later()

    async def _watch(self, exchange: Exchange, task: asyncio.Task[Any]) -> None:
        await exchange.wait_disconnected()
        self._gone.add(exchange)
        task.cancel()
