"""Where requests go, and how what breaks on the way there is told; what the two connections share."""

import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore

from sandseal_sdk.errors import HostUnreachable, NoAnswer, NotConnected, NotLoggedIn
from sandseal_sdk.hosts.answer import Answer
from sandseal_sdk.hosts.tls import Tls

Content = bytes | Sequence[bytes | memoryview] | Iterator[bytes]
"""A body: whole, in pieces, or as it comes with a Content-Length among the headers."""

_VISIBLE = re.compile(r"[!-~]+")
_REQUEST_ID = "X-Request-Id"
_JOINED = 64 << 10
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
        """The same for everything."""
        return cls(timeout, timeout)


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
        self._scheme, self._host, self._port = parts.scheme.encode(), _name(parts), parts.port
        self._prefix = parts.path.rstrip("/")
        self._headers: list[tuple[bytes, bytes]] = []
        if token:
            if not _VISIBLE.fullmatch(token):  # httpcore's own complaint would repeat it
                raise NotLoggedIn("the token has characters that no header can carry")
            self._headers.append((b"Authorization", b"Bearer " + token.encode()))
        self._ids = map(f"{secrets.token_hex(4)}-{{}}".format, count(1))
        self._tls = (tls or Tls()).context() if parts.scheme == "https" else None

    def pool_options(self, connections: int) -> dict[str, Any]:
        """What a pool of httpcore's is made with."""
        return {
            "ssl_context": self._tls,
            "max_connections": connections,
            "keepalive_expiry": 4.0,  # uvicorn closes after five: a request must not meet that
            "proxy": _proxy(self._scheme.decode(), self._host.decode()),
        }

    def request(
        self, method: str, path: str, content: Content | AsyncIterator[bytes], headers: Mapping[str, str], waits: Waits
    ) -> dict[str, Any]:
        """What a pool is asked with; the request gets an id, which the host has in its log."""
        url = httpcore.URL(
            scheme=self._scheme, host=self._host, port=self._port, target=f"{self._prefix}{path}".encode()
        )
        own = {_REQUEST_ID: next(self._ids), **headers}
        moving, answer = waits.moving_s, waits.answer_s
        return {
            "method": method,
            "url": url,
            "headers": [*self._headers, *((k.encode("ascii"), v.encode("latin-1")) for k, v in own.items())],
            "content": content,
            "extensions": {"timeout": {"connect": moving, "write": moving, "read": answer, "pool": moving}},
        }

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Tell what breaks on the way as our own errors."""
        try:
            yield
        except httpcore.TimeoutException as error:
            raise NoAnswer(f"{self.url} does not answer in time ({type(error).__name__})") from None
        except httpcore.ConnectError as error:
            kind = NotConnected if _was_refused(error) else HostUnreachable
            raise kind(f"{self.url}: {error}") from None
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.ProxyError,
            httpcore.UnsupportedProtocol,
        ) as error:
            raise HostUnreachable(f"{self.url}: {error or type(error).__name__}") from None


def sized(content: Content, headers: Mapping[str, str]) -> tuple[Content, Mapping[str, str]]:
    """A body as it is sent best, and the headers with its length."""
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        return content, headers
    views = [memoryview(piece).cast("B") for piece in content if len(piece)]
    total = sum(map(len, views))
    if total <= _JOINED:
        return b"".join(views), headers
    pieces = [view[at : at + _PIECE] for view in views for at in range(0, len(view), _PIECE)]
    return pieces, {**headers, "Content-Length": str(total)}


def answer_of(response: httpcore.Response) -> Answer:
    """An answer that was read."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return Answer(response.status, headers, response.content)


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


def _name(parts: SplitResult) -> bytes:
    return (parts.hostname or "").encode("idna")


def _proxy(scheme: str, host: str) -> httpcore.Proxy | None:
    """The proxy that the environment names (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."""
    named = getproxies().get(scheme)
    if not named or proxy_bypass(host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return httpcore.Proxy(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", auth=auth)


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
