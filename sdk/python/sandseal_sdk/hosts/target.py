"""Where requests go, and how what breaks on the way there is told; what the two connections share."""

import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpcore

from sandseal_sdk.errors import HostUnreachable, NoAnswer, NotConnected, NotLoggedIn
from sandseal_sdk.hosts.loop_stream import LoopBackend
from sandseal_sdk.hosts.patience import ENDLESS_S
from sandseal_sdk.hosts.pool import IDLE_S, JOINED, PlainConnection, SecureConnection
from sandseal_sdk.hosts.proxy import Proxy
from sandseal_sdk.hosts.tls import Tls

Content = bytes | Sequence[bytes | memoryview] | Iterator[bytes]
"""A body: whole, in pieces, or as it comes with a Content-Length among the headers."""

_VISIBLE = re.compile(r"[!-~]+")
_REQUEST_ID = "X-Request-Id"
_PIECE = 256 << 10  # sockets take no more at once, and what they leave is copied


@dataclass(frozen=True, slots=True)
class Waits:
    """How long one request may take, in seconds; None for no end.

    Args:
        moving_s: until there is a connection, and until each piece has left.
        answer_s: until the answer begins, and each time until it goes on.
    """

    moving_s: float | None = 60.0
    answer_s: float | None = 60.0

    @classmethod
    def of(cls, timeout: float | None) -> "Waits":
        """The same for everything: no end for what clocks cannot hold, nothing for what is no time."""
        bounded = None if timeout is None or timeout > ENDLESS_S else max(0.0, timeout)
        return cls(bounded, bounded)


class Target:
    """A host's address and everything that each request to it has.

    Args:
        url: the host's address; a path in it is a prefix, as proxies have it.
        token: a bearer token.
        tls: files for https.

    Raises:
        HostUnreachable: the address is none.
        NotLoggedIn: the token is none.
        TlsFilesInvalid: a file cannot be used.
    """

    def __init__(self, url: str, token: str | None, tls: Tls | None) -> None:
        self.url, parts = url, _split(url)
        self._scheme, self._host = parts.scheme, _name(parts)
        self._port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        self._front = parts.path.rstrip("/")
        self._headers: dict[str, str] = {}
        if token:
            if not _VISIBLE.fullmatch(token):  # http.client's and httpcore's own complaints would repeat it
                raise NotLoggedIn("the token has characters that no header can carry")
            self._headers["Authorization"] = f"Bearer {token}"
        self._ids = map(f"{secrets.token_hex(4)}-{{}}".format, count(1))
        self._tls = (tls or Tls()).context() if parts.scheme == "https" else None
        self._proxy = Proxy.of(parts.scheme, self._host)

    def connection(self, wait_s: float | None) -> HTTPConnection:
        """A connection of http.client's to the host, or to the proxy in front of it, which is not open yet.

        Raises:
            HostUnreachable: the proxy is of another kind than http's.
        """
        host, port, proxy = self._host, self._port, self._proxy
        if proxy is not None:
            host, port = proxy.address
        if self._tls is None:
            return PlainConnection(host, port, timeout=wait_s)
        connection = SecureConnection(host, port, timeout=wait_s, context=self._tls)
        if proxy is not None:
            connection.set_tunnel(self._host, self._port, proxy.headers)
        return connection

    def begin(self, connection: HTTPConnection, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Write a request's head on such a connection."""
        front, own = self._front, self._own(headers)
        if self._proxy is not None and self._tls is None:
            host = f"[{self._host}]" if ":" in self._host else self._host
            front, own = f"http://{host}:{self._port}{front}", own | self._proxy.headers
        connection.putrequest(method, front + path, skip_accept_encoding=True)
        for name, value in own.items():
            connection.putheader(name, value)
        connection.endheaders()

    def pool_options(self, connections: int) -> dict[str, Any]:
        """What a pool of httpcore's is made with."""
        return {
            "ssl_context": self._tls,
            "max_connections": connections,
            "keepalive_expiry": IDLE_S,
            "proxy": self._proxy and httpcore.Proxy(self._proxy.url, auth=self._proxy.auth),
            "network_backend": LoopBackend(),
        }

    def request(
        self, method: str, path: str, content: Content | AsyncIterator[bytes], headers: Mapping[str, str], waits: Waits
    ) -> dict[str, Any]:
        """What such a pool is asked with."""
        target = f"{self._front}{path}".encode()
        moving, answer = waits.moving_s, waits.answer_s
        return {
            "method": method,
            "url": httpcore.URL(scheme=self._scheme, host=self._host, port=self._port, target=target),
            "headers": [(k.encode("ascii"), v.encode("latin-1")) for k, v in self._own(headers).items()],
            "content": content,
            "extensions": {"timeout": {"connect": moving, "write": moving, "read": answer, "pool": moving}},
        }

    @contextmanager
    def translated(self, *kinds: type[Exception]) -> Iterator[None]:
        """Tell what breaks on the way, which are errors of these kinds, as our own errors."""
        try:
            yield
        except kinds as error:
            raise self._broken(error) from None

    def _own(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request, which gets an id that the host has in its log."""
        return {**self._headers, _REQUEST_ID: next(self._ids), **headers}

    def _broken(self, error: Exception) -> HostUnreachable:
        if isinstance(error, TimeoutError | httpcore.TimeoutException):
            return NoAnswer(f"{self.url} does not answer in time ({type(error).__name__})")
        kind = NotConnected if _was_refused(error) else HostUnreachable
        return kind(f"{self.url}: {error or type(error).__name__}")


def sized(content: Content, headers: Mapping[str, str]) -> tuple[Content, Mapping[str, str]]:
    """A body as it is sent best, and the headers with its length."""
    if not isinstance(content, Sequence):
        return content, headers
    if not isinstance(content, bytes):
        views = [memoryview(piece).cast("B") for piece in content if len(piece)]
        total = sum(map(len, views))
        if total > JOINED:
            pieces = [view[at : at + _PIECE] for view in views for at in range(0, len(view), _PIECE)]
            return pieces, {**headers, "Content-Length": str(total)}
        content = b"".join(views)
    return content, {**headers, "Content-Length": str(len(content))}


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc:  # which would be left out of requests, and shown in messages
            raise HostUnreachable("the address has a name or a password in it", hint="give a token instead")
        if parts.scheme in ("http", "https") and parts.port != 0 and _name(parts):
            return parts
    except ValueError:
        pass
    raise HostUnreachable(f"{url!r} is no address", hint="write it as https://host.example or http://127.0.0.1:8000")


def _name(parts: SplitResult) -> str:
    return (parts.hostname or "").encode("idna").decode()


def _was_refused(error: object) -> bool:
    """Whether nobody listens there; httpcore keeps what it was told as the only argument, anyio as the cause."""
    match error:
        case ConnectionRefusedError():
            return True
        case ExceptionGroup():
            return all(map(_was_refused, error.exceptions))
        case httpcore.ConnectError():
            return any(map(_was_refused, error.args))
        case OSError():
            return _was_refused(error.__cause__)
    return False
