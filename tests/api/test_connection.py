"""What a connection may take of the host, over real sockets."""

import json
import socket
import time
from functools import partial

import httpx
import pytest

from api.test_faces import JSON, request
from api.test_server import Served, token
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.api.settings import ConnectionLimits

SLOW_S = 0.4
LIMITS = ConnectionLimits(head_bytes=4096, headers=20, connections=8, slow_s=SLOW_S, slow_bytes_s=20_000)


@pytest.fixture(scope="module")
def served():
    with Served(partial(DataPlaneProtocol, limits=LIMITS)) as served:
        assert httpx.post(served.url("/v2/models/wide/infer"), content=JSON, headers=token()).status_code == 200
        yield served
        until = time.monotonic() + 5
        while served.server.server_state.connections and time.monotonic() < until:
            time.sleep(0.02)
        assert not served.server.server_state.connections


@pytest.fixture
def connection(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
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

    def test_without_end(self, connection):
        connection.sendall(b"POST /v2/models/wide/infer HTTP/1.1\r\nX: ")
        for _ in range(8):
            time.sleep(0.005)
            try:
                connection.sendall(b"x" * 1000)
            except OSError:
                break
        refused(rest(connection), 431, "headers_too_large")

    def test_large_bodies_do_not_count(self, served):
        body = json.dumps(
            {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 9000], "data": [0.5] * 9000}]}
        ).encode()
        assert httpx.post(served.url("/v2/models/wide/infer"), content=body, headers=token()).status_code == 200


class TestSlowSenders:
    def trickle(self, connection: socket.socket, data: bytes) -> float:
        """Send byte by byte until the server has had enough; the seconds that it took."""
        began = time.monotonic()
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
                connection.settimeout(10)
        return time.monotonic() - began

    def test_a_head(self, connection):
        took = self.trickle(connection, request(JSON, b"X: " + b"x" * 1000))
        refused(rest(connection), 408, "too_slow")
        assert took < 3 * SLOW_S

    @pytest.mark.parametrize("path", ["/v2/models/wide/infer", "/v1/bundles", "/v1/tokens"])
    def test_a_body(self, connection, served, path):
        sent = request(b" " * 2000, target=path.encode())
        head, _, body = sent.partition(b"\r\n\r\n")
        connection.sendall(head + b"\r\n\r\n")
        took = self.trickle(connection, body)
        refused(rest(connection), 408, "too_slow")
        assert took < 3 * SLOW_S

    def test_a_body_that_never_comes(self, connection):
        connection.sendall(request(b"", length=b"Content-Length: 10"))
        refused(rest(connection), 408, "too_slow")

    def test_nothing_at_all(self, connection):
        assert rest(connection) == b""

    @pytest.mark.slow
    def test_a_body_that_gets_on_may_take_its_time(self, connection):
        body = b"SEAL:acme.tiny:" + bytes(60_000) + b":END"
        connection.sendall(request(b"", length=b"Content-Length: %d" % len(body), target=b"/v1/bundles"))
        for at in range(0, len(body), 3000):
            connection.sendall(body[at : at + 3000])
            time.sleep(0.05)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")

    @pytest.mark.slow
    def test_a_connection_between_requests_is_left_alone(self, connection):
        for _ in range(2):
            connection.sendall(request(JSON))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            time.sleep(2 * SLOW_S)


def test_an_answer_that_nobody_reads(served):
    values = [0.123456789] * 100_000
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 100_000], "data": values}]}).encode()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", served.port))
        deaf.settimeout(5)
        try:
            for _ in range(20):
                deaf.sendall(request(body))
        except OSError:
            pass
        until = time.monotonic() + 5
        while served.server.server_state.connections and time.monotonic() < until:
            time.sleep(0.02)
        assert not served.server.server_state.connections


def test_connections(served):
    held = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(8)]
    try:
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as surplus:
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
    for open_one in list(served.server.server_state.connections):
        open_one.loop.call_soon_threadsafe(open_one.shutdown)
    connection.sendall(request(JSON, target=path))
    assert rest(connection).startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_ends_soon_after(served, connection):
    connection.sendall(request(JSON))
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    for open_one in list(served.server.server_state.connections):
        open_one.loop.call_soon_threadsafe(open_one.shutdown)
    assert rest(connection) == b""


def test_what_is_sent_behind_a_request_waits_in_the_kernel(served):
    """A piece that was read is kept until its requests are answered; no further one is read meanwhile."""
    piece, kept = request(JSON) * 200, []
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", served.port))
        deaf.settimeout(5)
        try:
            for _ in range(400):
                deaf.sendall(piece)
                kept += [len(open_one.pipeline) for open_one in list(served.server.server_state.connections)]
        except OSError:
            pass
    assert max(kept) * len(request(JSON)) < 512 << 10
