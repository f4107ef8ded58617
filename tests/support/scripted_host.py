"""An HTTP server on loopback that gives the answers it was told to, in turn, and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Scripted:
    """One answer.

    Args:
        pieces: the body; between two of them the server waits for `go`, where there is one.
        go: what it waits for; what it then finds is a client that is gone, or not.
        sized: whether it says how long the body is.
    """

    status: int = 200
    pieces: tuple[bytes, ...] = (b"{}",)
    headers: Mapping[str, str] = field(default_factory=dict)
    go: threading.Event | None = None
    sized: bool = True


def document(content: Any, status: int = 200, **headers: str) -> Scripted:
    """An answer with a JSON body; underscores in names of headers are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(status, (json.dumps(content).encode(),), named)


@dataclass(frozen=True)
class Asked:
    """One request; `headers` by lower-case name."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int


class ScriptedHost:
    """The server, with 500 for what goes beyond; `reached`: it was asked, `gone`: nobody took an answer."""

    def __init__(self) -> None:
        self.answers: list[Scripted] = []
        self.asked: list[Asked] = []
        self.reached, self.gone = threading.Event(), threading.Event()
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def _answer(self) -> None:
                host.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append(Asked(handler.command, handler.path, headers, body, handler.client_address[1]))
        self.reached.set()
        answer = self.answers.pop(0) if self.answers else document({"error": "nothing more was scripted"}, 500)
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.sized:
            handler.send_header("Content-Length", str(sum(map(len, answer.pieces))))
        handler.end_headers()
        try:
            for number, piece in enumerate(answer.pieces):
                if number and answer.go:
                    answer.go.wait(60)
                handler.wfile.write(piece)
                handler.wfile.flush()
        except OSError:
            self.gone.set()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def scripted_host(*answers: Scripted) -> Iterator[ScriptedHost]:
    """A server that gives these answers."""
    host = ScriptedHost()
    host.answers += answers
    try:
        yield host
    finally:
        host.close()
