"""A TCP proxy that breaks connections after a given number of bytes, as networks do."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


class CuttingProxy:
    """Forwards loopback connections, until the bytes sent through it reach the next cut.

    Args:
        target: the port behind it.
        cuts: after how many bytes from clients, counted over all connections, every connection is broken.
    """

    def __init__(self, target: int, cuts: Sequence[int]) -> None:
        self.target, self.cuts = target, list(cuts)
        self.sent, self.broken = 0, 0
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Break everything."""
        self._shut(self._listener)
        self._break()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host = socket.create_connection(("127.0.0.1", self.target))
                with self._guard:
                    self._open |= {client, host}
                threading.Thread(target=self._forward, args=(client, host, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(host, client, False), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
                if counted and self._due(len(data)):
                    self._break()
        for side in (source, sink):
            self._shut(side)

    def _due(self, count: int) -> bool:
        with self._guard:
            self.sent += count
            if not self.cuts or self.sent < self.cuts[0]:
                return False
            del self.cuts[0]
            self.broken += 1
            return True

    def _break(self) -> None:
        with self._guard:
            sides, self._open = self._open, set()
        for side in sides:
            self._shut(side)

    @staticmethod
    def _shut(side: socket.socket) -> None:
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
        side.close()


@contextmanager
def cutting_proxy(target: int, cuts: Sequence[int]) -> Iterator[CuttingProxy]:
    """A proxy in front of a loopback port for the length of a block."""
    proxy = CuttingProxy(target, cuts)
    try:
        yield proxy
    finally:
        proxy.close()
