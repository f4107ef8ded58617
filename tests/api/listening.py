"""A host double behind the data plane's own protocol on a real socket, on a loop of a thread's."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import uvicorn
from uvicorn.server import ServerState

from api.double import HostDouble, ModelDouble, ModelsDouble
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.api.settings import ConnectionLimits

T = TypeVar("T")


class Listening:
    """A server of these models; use it with `with`."""

    def __init__(self, *models: ModelDouble, limits: ConnectionLimits | None = None) -> None:
        self.host = HostDouble(ModelsDouble(*models))
        self._limits = limits
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "Listening":
        self._thread.start()
        self._server: asyncio.Server = self.run(self._listen)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something on the server's loop."""

        async def wrapped() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(wrapped(), self._loop).result(60)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call something on the server's loop."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def answers(self, model: str) -> dict[int, int]:
        """How many answers of a model had each status."""
        return dict(self.host.app.endpoint.edge.prepared.of(self.host.models.get(model)).meter.statuses())

    async def _listen(self) -> asyncio.Server:
        config = uvicorn.Config(
            self.host.app,
            http=DataPlaneProtocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        config.load()
        self._state = ServerState()
        return await self._loop.create_server(
            lambda: DataPlaneProtocol(config, self._state, {}, self._loop, limits=self._limits), "127.0.0.1", 0
        )

    async def _end(self) -> None:
        self._server.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
