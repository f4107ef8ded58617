"""Serving an ASGI app with uvicorn: httptools and uvloop where they exist, one line on stdout once it listens."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

import uvicorn


class _Server(uvicorn.Server):
    """uvicorn's server that says where it listens (news when the port was 0) and when it begins to stop."""

    def __init__(
        self, config: uvicorn.Config, listening: Callable[[str, int], None], stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._listening = listening
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.servers:
            host, port, *_ = self.servers[0].sockets[0].getsockname()
            self._listening(host, port)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop serving at a signal; uvicorn's own would raise it again afterwards, before anything else was closed."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping()
        super().handle_exit(sig, frame)


def _protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    """The data plane's own protocol where httptools is installed; elsewhere its ASGI face answers."""
    try:
        from sandseal_host.api.protocol import DataPlaneProtocol
    except ModuleNotFoundError:
        return "h11"
    return DataPlaneProtocol


async def serve(
    app: Callable[..., Awaitable[None]],
    *,
    host: str,
    port: int,
    root_path: str = "",
    drain_s: float = 30.0,
    listening: Callable[[str, int], None],
    stopping: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then let running requests end.

    Args:
        host: address to bind.
        port: port to bind; 0 picks a free one.
        root_path: prefix that a proxy in front strips.
        drain_s: seconds that running requests get at the end.
        listening: called with address and port once connections are taken.
        stopping: called when a signal asks to stop.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        root_path=root_path,
        http=_protocol(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=int(drain_s) or None,
        backlog=2048,
    )
    await _Server(config, listening, stopping).serve()
