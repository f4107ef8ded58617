"""Connections to one host that threads take in turn.

The HTTP over them is the standard library's: httpcore's took more than half of a small call's time.
"""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from time import monotonic
from typing import Any

from sandseal_sdk.errors import NoAnswer

IDLE_S = 4.0
"""How long a connection waits for its next request: what stands between may close it after five seconds."""

JOINED = 64 << 10
"""Bytes of a request that are put together to be sent at once."""


class PlainConnection(HTTPConnection):
    """A connection that sends at once what is written apart: a head, and a body that fits beside it.

    It saves a system call here, and there a turn of the loop for a request that has no body yet.
    """

    _held: bytes | None = None  # until it is connected, so that a proxy's tunnel goes out as it is written

    def connect(self) -> None:
        """Connect."""
        super().connect()
        self._held = b""

    def send(self, data: Any) -> None:
        """Send a piece, or keep it for the next one."""
        held = self._held
        if held is None:
            super().send(data)
        elif len(held) + len(data) <= JOINED:
            self._held = held + data
        else:
            self._flush()
            super().send(data)

    def getresponse(self) -> HTTPResponse:
        """Send what was kept, and wait for the answer's head; a host that refuses early has sent it."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._flush()
        return super().getresponse()

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            super().send(held)


class SecureConnection(PlainConnection, HTTPSConnection):
    """The same over TLS."""


class Pool:
    """Connections for any number of threads, the one that was used last first.

    Args:
        connect: makes one, within so many seconds.
        most: open at once; who wants one more waits.
    """

    def __init__(self, connect: Callable[[float | None], HTTPConnection], most: int) -> None:
        self._connect, self._places = connect, threading.Semaphore(most)
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._taken: set[HTTPConnection] = set()
        self._guard = threading.Lock()
        self._closed = False

    def take(self, wait_s: float | None) -> HTTPConnection:
        """A connection; give it back.

        Raises:
            NoAnswer: all are taken for that long.
        """
        if not self._places.acquire(timeout=wait_s):
            raise NoAnswer("all connections of the client are taken for too long")
        try:
            connection = self._rested() or self._connect(wait_s)
        except BaseException:
            self._places.release()
            raise
        with self._guard:
            self._taken.add(connection)
        return connection

    def give(self, connection: HTTPConnection, *, keep: bool) -> None:
        """Give a connection back.

        Args:
            keep: whether it can take another request.
        """
        with self._guard:
            self._taken.discard(connection)
            keep = keep and not self._closed
            if keep:
                self._idle.append((connection, monotonic()))
        if not keep:
            connection.close()
        self._places.release()

    def close(self) -> None:
        """Close all connections; what is under way over them fails."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
            taken = [connection.sock for connection in self._taken]
        for connection, _ in idle:
            connection.close()
        for own in taken:
            with suppress(OSError, AttributeError):  # it has just ended
                own.shutdown(socket.SHUT_RDWR)

    def _rested(self) -> HTTPConnection | None:
        """One that waited for its next request, if any still can take it."""
        while True:
            with self._guard:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()
            if monotonic() - since < IDLE_S and not _has_ended(connection.sock):
                return connection
            connection.close()


def _has_ended(own: socket.socket) -> bool:
    """Whether the other end of a connection that waits has said something, which can only be that it goes."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(own, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([own], [], [], 0)[0])
