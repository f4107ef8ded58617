"""The gRPC server in front of the host double."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from api.conftest import standard_host
from api.double import HostDouble
from sandseal_host.api.grpc.server import serve_grpc
from sandseal_host.api.settings import ApiSettings
from sandseal_host.observe.observers import Observers


class Served:
    """The host double's gRPC server on a loop of its own."""

    def __init__(self, settings: ApiSettings | None = None, observers: Observers | None = None) -> None:
        self.host: HostDouble = standard_host(settings, observers)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server, self.port = self._run(serve_grpc(self.host.app.endpoint, host="127.0.0.1", port=0))

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self._run(self._server.stop(1))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def set(self, event: asyncio.Event) -> None:
        self.call(event.set)

    def call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)
