"""Over a real socket under uvicorn, with the clients that people have."""

import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn

from api.double import HostDouble, ModelsDouble, identity, mlp, pair
from api.test_control import SEAL
from api.test_infer import tensor
from sandseal_host.api.protocol import DataPlaneProtocol
from support.waiting import wait_until


def token() -> dict[str, str]:
    """A new dict each time: tritonclient writes into the one that it gets."""
    return {"Authorization": "Bearer root"}


def head(path: str, length: int) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: h", "Authorization: Bearer root", f"Content-Length: {length}", "", "")
    return "\r\n".join(lines).encode()


class Served:
    """The host double behind uvicorn on a free port, on a thread of its own."""

    def __init__(self, http: Any) -> None:
        self.host = HostDouble(
            ModelsDouble(mlp(), pair(), identity("text", "BYTES", "batch", "n"), identity("wide", "FP32", "batch", "n"))
        )
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(
            self.host.app, http=http, lifespan="off", log_level="critical", access_log=False, ws="none"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})

    def __enter__(self) -> "Served":
        self.thread.start()
        wait_until(lambda: self.server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self.socket.close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture(scope="module", params=["httptools", "h11", DataPlaneProtocol], ids=["asgi", "h11", "protocol"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Both faces of the data plane: ASGI, and uvicorn's protocol."""
    with Served(request.param) as served:
        yield served


def exchange(served: Served, sent: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(sent)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


BODY = json.dumps({"inputs": [tensor(shape=(1, 3), data=[1, 2, 3])]}).encode()


def wide(body: bytes = BODY, version: str = "1.1", *lines: str) -> bytes:
    head = (f"POST /v2/models/wide/infer HTTP/{version}", "Host: h", "Authorization: Bearer root", *lines)
    return "\r\n".join((*head, f"Content-Length: {len(body)}", "", "")).encode() + body


class TestConnections:
    def test_pipelined_requests_are_answered_in_order(self, served):
        bodies = [json.dumps({"id": str(i), "inputs": [tensor(shape=(1, 1), data=[i])]}).encode() for i in range(5)]
        sent = b"".join(map(wide, bodies[:-1])) + wide(bodies[-1], "1.1", "Connection: close")
        received = exchange(served, sent)
        assert received.count(b"HTTP/1.1 200 OK\r\n") == 5
        assert [received.index(b'"id":"%d"' % i) for i in range(5)] == sorted(
            received.index(b'"id":"%d"' % i) for i in range(5)
        )
        assert received.lower().count(b"connection: close") == 1

    def test_old_clients_get_a_closed_connection(self, served):
        assert b"[1.0,2.0,3.0]" in exchange(served, wide(BODY, "1.0"))

    def test_a_body_may_wait_for_the_word_to_go_on(self, served):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
            head = wide(BODY, "1.1", "Expect: 100-continue", "Connection: close").removesuffix(BODY)
            connection.sendall(head)
            assert connection.recv(65536).startswith(b"HTTP/1.1 100")
            connection.sendall(BODY)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
        assert received.startswith(b"HTTP/1.1 200")

    def test_a_head_has_no_body(self, served):
        received = exchange(served, b"HEAD /v2/health/live HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert received.startswith(b"HTTP/1.1 405")
        assert received.endswith(b"\r\n\r\n")

    def test_a_refused_body_leaves_a_usable_connection_or_a_closed_one(self, served):
        received = exchange(served, wide(b"{") + wide(BODY, "1.1", "Connection: close"))
        assert received.startswith(b"HTTP/1.1 400")
        assert b"HTTP/1.1 200" in received

    def test_a_large_answer_reaches_a_slow_reader(self, served):
        x = np.arange(3_000_000, dtype=np.float32)
        entry = tensor(shape=(1, len(x)), parameters={"binary_data_size": x.nbytes})
        text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
        lines = (f"Inference-Header-Content-Length: {len(text)}", "Connection: close")
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
            connection.sendall(wide(text + x.tobytes(), "1.1", *lines))
            received = bytearray()
            while chunk := connection.recv(1 << 20):
                received += chunk
                time.sleep(0.002)
        assert received.endswith(x.tobytes())


class TestTritonClient:
    @pytest.fixture
    def client(self, served):
        triton = pytest.importorskip("tritonclient.http")
        with triton.InferenceServerClient(f"127.0.0.1:{served.port}") as client:
            yield client

    def test_metadata(self, client):
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("mlp", headers=token())
        assert not client.is_model_ready("nope", headers=token())
        assert client.get_server_metadata(headers=token())["name"] == "sandseal"
        assert client.get_model_metadata("mlp", headers=token())["inputs"][0]["shape"] == [-1, 128]
        assert {"name": "mlp", "version": "1", "state": "READY"} in client.get_model_repository_index(headers=token())
        client.load_model("mlp", headers=token())

    @pytest.mark.parametrize("binary", [True, False])
    @pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
    def test_infer(self, client, served, binary, compression):
        import tritonclient.http as triton

        x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(2, 128)
        given = triton.InferInput("x", [2, 128], "FP32")
        given.set_data_from_numpy(x, binary_data=binary)
        wanted = triton.InferRequestedOutput("y", binary_data=binary)
        for outputs in ([wanted], None):
            answer = client.infer(
                "mlp", [given], outputs=outputs, request_id="7", headers=token(), priority=1, timeout=1_000_000,
                request_compression_algorithm=compression,
            )  # fmt: skip
            assert answer.get_response()["id"] == "7"
            expected = x @ np.linspace(-1, 1, 1280, dtype=np.float32).reshape(128, 10)
            assert np.array_equal(answer.as_numpy("y"), expected)

    @pytest.mark.parametrize("binary", [True, False])
    def test_strings(self, client, binary):
        import tritonclient.http as triton

        given = triton.InferInput("x", [1, 2], "BYTES")
        given.set_data_from_numpy(np.array([["héllo", ""]], object), binary_data=binary)
        wanted = triton.InferRequestedOutput("y", binary_data=binary)
        found = client.infer("text", [given], outputs=[wanted], headers=token()).as_numpy("y")
        assert [value.decode() if isinstance(value, bytes) else value for value in found.ravel()] == ["héllo", ""]

    def test_errors_have_text(self, client):
        import tritonclient.http as triton

        given = triton.InferInput("x", [1, 3], "FP32")
        given.set_data_from_numpy(np.zeros((1, 3), np.float32))
        with pytest.raises(triton.InferenceServerException, match=r"shape \[1, 3\]") as refusal:
            client.infer("mlp", [given], headers=token())
        assert refusal.value.status() == "400"


def test_large_bodies_come_in_pieces_and_reach_the_model_aligned(served):
    x = np.arange(2_000_000, dtype=np.float32).reshape(1, -1)
    entry = tensor(shape=x.shape, parameters={"binary_data_size": x.nbytes})
    for pad in range(2):
        text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode() + b" " * pad
        headers = {**token(), "Inference-Header-Content-Length": str(len(text))}
        answer = httpx.post(served.url("/v2/models/wide/infer"), content=text + x.tobytes(), headers=headers)
        assert answer.content.endswith(x.tobytes())
        request = served.host.models.get("wide").requests.pop()
        assert request.inputs[0].data.flags.aligned


def test_large_json(served):
    x = np.arange(100_000, dtype=np.float32).reshape(1, -1)
    body = {"inputs": [tensor(shape=x.shape, data=x.tolist())]}
    answer = httpx.post(served.url("/v2/models/wide/infer"), json=body, headers=token())
    assert answer.json()["outputs"][0]["data"] == x.ravel().tolist()


def test_chunked_body(served):
    def pieces():
        body = json.dumps({"inputs": [tensor(shape=(1, 3), data=[1, 2, 3])]}).encode()
        for at in range(0, len(body), 10):
            yield body[at : at + 10]

    answer = httpx.post(served.url("/v2/models/wide/infer"), content=pieces(), headers=token())
    assert answer.json()["outputs"][0]["data"] == [1.0, 2.0, 3.0]


def test_a_refused_body_is_not_read_and_the_connection_lives_on(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    for _ in range(2):
        connection.request("POST", "/v2/models/wide/infer", bytes(1000), {"Authorization": "Bearer wrong-1"})
        answer = connection.getresponse()
        assert answer.status == 401
        assert json.loads(answer.read())["code"] == "not_authenticated"
    connection.close()


def test_a_body_that_says_it_is_too_large(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.putrequest("POST", "/v2/models/wide/infer")
    connection.putheader("Content-Length", str(1 << 40))
    connection.putheader("Authorization", "Bearer root")
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["limit"] == 16 << 20
    connection.close()


def test_a_client_that_goes_away_frees_its_place(served):
    import asyncio

    model = served.host.models.get("mlp")
    body = json.dumps({"inputs": [tensor(shape=(1, 128), data=[0] * 128)]}).encode()
    model.gate, before = asyncio.Event(), len(model.requests)
    try:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(head("/v2/models/mlp/infer", len(body)) + body)
            wait_until(lambda: len(model.requests) > before)
            assert model.cancelled == 0
        wait_until(lambda: model.cancelled)
        assert model.cancelled == 1
    finally:
        model.gate = None


def test_upload_that_breaks_off(served, monkeypatch):
    taken, accept = threading.Event(), served.host.bundles.accept

    def accept_in_two(stream, publisher):
        first = stream.read(50_000)
        taken.set()
        return accept(io.BytesIO(first + stream.read()), publisher)

    monkeypatch.setattr(served.host.bundles, "accept", accept_in_two)
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(head("/v1/bundles", len(SEAL)) + SEAL[:50_000])
        assert taken.wait(60)
    wait_until(lambda: served.host.bundles.streams)
    assert served.host.bundles.streams == [SEAL[:50_000]]
    assert served.host.bundles.accepted == []
    answer = httpx.post(served.url("/v1/bundles"), content=SEAL, headers=token())
    assert answer.status_code == 201


def test_upload_refused_while_the_client_still_sends(served):
    from sandseal_signing.errors import Unsigned

    served.host.bundles.refuse = Unsigned("no signature")
    try:
        answer = httpx.post(served.url("/v1/bundles"), content=bytes(20_000_000), headers=token())
        assert answer.status_code == 403
        assert answer.json()["code"] == "unsigned"
    finally:
        served.host.bundles.refuse = None
