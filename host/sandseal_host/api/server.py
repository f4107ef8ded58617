"""Serving an ASGI app with uvicorn: httptools and uvloop where they exist, one line on stdout once it listens."""

import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from types import FrameType
from typing import Any

import uvicorn
from starlette.middleware.cors import CORSMiddleware

from sandseal_host.api.settings import ConnectionLimits
from sandseal_host.api.tls import TlsFiles
from sandseal_host.settings import Settings

Application = Callable[..., Awaitable[None]]

_IDLE_S = 75  # of a connection between requests: longer than load balancers keep theirs, whose next one is on its way


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


def _protocol(limits: ConnectionLimits) -> Any:
    """The data plane's own protocol where httptools is installed; elsewhere its ASGI face answers."""
    try:
        from sandseal_host.api.protocol import DataPlaneProtocol
    except ModuleNotFoundError:
        return "h11"
    return partial(DataPlaneProtocol, limits=limits)


def _with_cors(app: Application, origins: str) -> Application:
    """The application, answering to pages of these origins; others then take its ASGI face too."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=[origin.strip() for origin in origins.split(",")],
        allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
        allow_headers=[
            *("authorization", "content-type", "inference-header-content-length", "sandseal-receipt"),
            *("traceparent", "x-request-id"),
        ],
        expose_headers=[
            *("inference-header-content-length", "retry-after", "sandseal-bundle", "sandseal-receipt"),
            *("server-timing", "x-request-id"),
        ],
    )


async def serve(
    app: Application,
    settings: Settings,
    *,
    tls: TlsFiles | None = None,
    listening: Callable[[str, int], None],
    stopping: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then let running requests end.

    Args:
        settings: address, port, limits of connections, and how long running requests get at the end.
        tls: what the port is served with.
        listening: called with address and port once connections are taken.
        stopping: called when a signal asks to stop.
    """
    limits = ConnectionLimits(
        head_bytes=settings.max_head_kib << 10,
        headers=settings.max_headers,
        connections=settings.max_connections,
        slow_s=settings.slow_s,
        slow_bytes_s=settings.slow_bytes_s,
    )
    config = uvicorn.Config(
        _with_cors(app if settings.direct else partial(app), settings.cors_origins),
        host=settings.host,
        port=settings.port,
        root_path=settings.root_path,
        http=_protocol(limits),
        ssl_certfile=tls.cert if tls else None,
        ssl_keyfile=tls.key if tls else None,
        ssl_ca_certs=str(tls.client_ca) if tls and tls.client_ca else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_ca else ssl.CERT_NONE,
        h11_max_incomplete_event_size=limits.head_bytes,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="error",  # it warns of every request that is none, and anybody can send those
        access_log=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        server_header=False,
        date_header=True,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=ceil(settings.drain_s),
        backlog=2048,
    )
    await _Server(config, listening, stopping).serve()
