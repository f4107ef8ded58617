"""Clients that hold connections open."""

import contextlib
import socket
from collections.abc import Iterator

from support.hosts import RunningHost


@contextlib.contextmanager
def idle_connections(host: RunningHost, count: int) -> Iterator[None]:
    """Connections that have asked once and then rest."""
    request = b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", host.port), timeout=60))
            peer.sendall(request)
            if not peer.recv(4096).startswith(b"HTTP/1.1 200"):
                raise ConnectionError("a connection was not answered")
        yield
