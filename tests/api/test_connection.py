"""What a connection may take of the host, over real sockets."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import httpx
import pytest

from api.test_faces import CHUNKED, JSON, TE, request
from api.test_server import Served, token
from sandseal_host.api import connection as connections
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.api.settings import ConnectionLimits
from support.waiting import wait_until

SLOW_S = 0.4
LIMITS = ConnectionLimits(head_bytes=4096, headers=20, connections=8, slow_bytes_s=20_000)
HASTY = replace(LIMITS, slow_s=SLOW_S)


@contextmanager
def serving(limits: ConnectionLimits) -> Iterator[Served]:
    with Served(partial(DataPlaneProtocol, limits=limits)) as served:
        assert httpx.post(served.url("/v2/models/wide/infer"), content=JSON, headers=token()).status_code == 200
        yield served
        wait_until(lambda: not served.server.server_state.connections)


@pytest.fixture(scope="module")
def served():
    with serving(LIMITS) as served:
        yield served


@pytest.fixture(scope="module")
def hasty():
    """A server that waits for nobody."""
    with serving(HASTY) as hasty:
        yield hasty


@pytest.fixture
def connection(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    got = b""
    try:
        while piece := connection.recv(65536):
            got += piece
    except ConnectionResetError:
        pass
    return got


def refused(answer: bytes, status: int, code: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in head
    assert json.loads(body)["code"] == code


class TestHead:
    @pytest.mark.parametrize(
        "sent",
        [
            request(JSON, b"X: " + b"x" * 4096),
            request(JSON, *[b"X-%d: %b" % (i, b"x" * 400) for i in range(12)]),
            request(JSON, *[b"X-%d:" % i for i in range(20)]),
            request(JSON, target=b"/v2/models/wide/infer?" + b"x" * 4096),
            request(b"", b"X: " + b"x" * 4096, method=b"GET", target=b"/v2/models"),
            request(b"", b"X: " + b"x" * 4096, method=b"GET", target=b"/v1/bundles"),
        ],
        ids=["a long field", "long fields", "many fields", "a long target", "the data plane", "the control plane"],
    )
    def test_too_large(self, connection, sent):
        connection.sendall(sent)
        refused(rest(connection), 431, "headers_too_large")

    def test_without_end(self, served, connection):
        connection.sendall(b"POST /v2/models/wide/infer HTTP/1.1\r\nX: ")
        wait_until(lambda: [one for one in [*served.server.server_state.connections] if one._part == "head"])
        with suppress(ConnectionError):
            for _ in range(8):
                connection.sendall(b"x" * 1000)
        refused(rest(connection), 431, "headers_too_large")

    def test_large_bodies_do_not_count(self, served):
        body = json.dumps(
            {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 9000], "data": [0.5] * 9000}]}
        ).encode()
        assert httpx.post(served.url("/v2/models/wide/infer"), content=body, headers=token()).status_code == 200


class TestOtherProtocols:
    """What HTTP/1.1 clients ask that know HTTP/2: curl's and Java's send a request with a body and see."""

    WISH = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
    LAST = request(b"", b"Connection: close", method=b"GET", target=b"/v2/health/live")

    def answers(self, connection: socket.socket) -> list[bytes]:
        return rest(connection).split(b"HTTP/1.1 ")[1:]

    def check(self, connection: socket.socket, count: int = 1) -> None:
        *answers, last = self.answers(connection)
        assert len(answers) == count
        for answer in answers:
            assert answer.startswith(b"200 ")
            assert b'"data":[1.0,2.0,3.0]' in answer
        assert b'"live":true' in last

    @pytest.mark.parametrize("wish", [WISH, (b"Connection: upgrade", b"Upgrade: websocket")], ids=["h2c", "websocket"])
    def test_a_wish_is_declined_and_nothing_is_lost(self, connection, wish):
        sent = request(JSON, *wish)
        connection.sendall(2 * sent + request(JSON) + sent + self.LAST)
        self.check(connection, 4)

    def test_in_pieces(self, connection):
        sent = request(JSON, *self.WISH) + request(CHUNKED, TE, *self.WISH, length=b"") + self.LAST
        for at in range(0, len(sent), 7):
            connection.sendall(sent[at : at + 7])
        self.check(connection, 2)

    def test_without_a_body(self, connection):
        connection.sendall(request(b"", *self.WISH, method=b"GET", target=b"/v2/health/live") + self.LAST)
        assert [b'"live":true' in answer for answer in self.answers(connection)] == [True, True]

    def test_a_tunnel_is_not_opened(self, connection):
        connection.sendall(b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        (answer,) = self.answers(connection)
        assert answer[:1] == b"4"

    def test_limits_hold(self, connection):
        connection.sendall(request(JSON, *self.WISH, b"X: " + b"x" * 4096))
        refused(rest(connection), 431, "headers_too_large")

    def test_very_many_at_once(self, connection):
        connection.sendall(
            500 * b"GET /v2/health/live HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + self.LAST
        )
        assert len(self.answers(connection)) == 501


class TestSlowSenders:
    @pytest.fixture
    def connection(self, hasty):
        with socket.create_connection(("127.0.0.1", hasty.port), timeout=60) as connection:
            yield connection

    def trickle(self, connection: socket.socket, data: bytes) -> int:
        """Send byte by byte until the server has had enough; how many bytes that took."""
        for at in range(len(data)):
            try:
                connection.sendall(data[at : at + 1])
            except OSError:
                break
            time.sleep(0.01)
            connection.setblocking(False)
            try:
                if connection.recv(1, socket.MSG_PEEK):
                    break
            except BlockingIOError:
                pass
            finally:
                connection.settimeout(60)
        return at

    def test_a_head(self, connection):
        sent = request(JSON, b"X: " + b"x" * 1000)
        assert self.trickle(connection, sent) < len(sent) - 1
        refused(rest(connection), 408, "too_slow")

    @pytest.mark.parametrize("path", ["/v2/models/wide/infer", "/v1/bundles", "/v1/tokens"])
    def test_a_body(self, connection, path):
        sent = request(b" " * 2000, target=path.encode())
        head, _, body = sent.partition(b"\r\n\r\n")
        connection.sendall(head + b"\r\n\r\n")
        assert self.trickle(connection, body) < len(body) - 1
        refused(rest(connection), 408, "too_slow")

    def test_a_body_that_never_comes(self, connection):
        connection.sendall(request(b"", length=b"Content-Length: 10"))
        refused(rest(connection), 408, "too_slow")

    def test_nothing_at_all(self, connection):
        assert rest(connection) == b""

    @pytest.mark.slow
    def test_a_body_that_gets_on_may_take_its_time(self):
        body = b"SEAL:acme.tiny:" + bytes(60_000) + b":END"
        limits = replace(LIMITS, slow_s=2.0, slow_bytes_s=1000)
        with (
            serving(limits) as served,
            socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection,
        ):
            connection.sendall(request(b"", length=b"Content-Length: %d" % len(body), target=b"/v1/bundles"))
            for at in range(0, len(body), 2000):
                connection.sendall(body[at : at + 2000])
                time.sleep(0.1)
            assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")

    @pytest.mark.slow
    def test_a_connection_between_requests_is_left_alone(self, connection):
        for _ in range(2):
            connection.sendall(request(JSON))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            time.sleep(2 * SLOW_S)


def test_an_answer_that_nobody_reads(hasty):
    values = [0.123456789] * 100_000
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 100_000], "data": values}]}).encode()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", hasty.port))
        deaf.settimeout(60)
        with suppress(ConnectionError):
            for _ in range(20):
                deaf.sendall(request(body))
        wait_until(lambda: not hasty.server.server_state.connections)


def test_connections(served):
    wait_until(lambda: not served.server.server_state.connections)
    held = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(8)]
    try:
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as surplus:
            refused(rest(surplus), 503, "connections_full")
        held[0].sendall(request(JSON))
        assert held[0].recv(65536).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize("path", [b"/v2/models/wide/infer", b"/v2/repository/index"], ids=["direct", "a task"])
def test_what_comes_while_the_server_stops_is_answered_last(served, connection, path):
    connection.sendall(request(JSON))
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    sent = threading.Event()

    def shut_down() -> None:
        sent.wait(60)
        for open_one in list(served.server.server_state.connections):
            open_one.shutdown()

    next(iter(served.server.server_state.connections)).loop.call_soon_threadsafe(shut_down)
    connection.sendall(request(JSON, target=path))
    sent.set()
    assert rest(connection).startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_ends_soon_after(served, connection, monkeypatch):
    monkeypatch.setattr(connections, "_LINGER_S", 0.05)
    connection.sendall(request(JSON))
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    for open_one in list(served.server.server_state.connections):
        open_one.loop.call_soon_threadsafe(open_one.shutdown)
    assert rest(connection) == b""


def test_what_is_sent_behind_a_request_waits_in_the_kernel(hasty):
    """A piece that was read is kept until its requests are answered; no further one is read meanwhile."""
    piece, kept = request(JSON) * 200, []
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", hasty.port))
        deaf.settimeout(60)
        with suppress(ConnectionError):
            for _ in range(400):
                deaf.sendall(piece)
                kept += [len(open_one.pipeline) for open_one in list(hasty.server.server_state.connections)]
    assert max(kept) * len(request(JSON)) < 512 << 10
