"""Models that generate text, through the Open Inference Protocol: whole, and as streams that clients may leave."""

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial

import httpx
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.double import HostDouble, ModelsDouble
from api.listening import Listening
from api.talking import Talker
from api.test_faces import request
from api.web import Web
from api.wire import Face, run
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.api.settings import ConnectionLimits
from sandseal_host.serving.generation.stream import BUFFER
from sandseal_host.serving.request import BATCH
from support.waiting import wait_until

ROOT = {"Authorization": "Bearer root"}


@pytest.fixture
def talker():
    return Talker()


@pytest.fixture
def client(talker):
    with Web(HostDouble(ModelsDouble(talker)).app, "root") as client:
        yield client


def events(text: str) -> list[dict]:
    *found, rest = text.split("\n\n")
    assert rest == ""
    return [json.loads(event.removeprefix("data: ")) for event in found]


def infer(text: str, **parameters):
    tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": [text]}
    return {"inputs": [tensor], "parameters": parameters}


class TestWhole:
    def test_generate(self, client, talker):
        answer = client.post("/v2/models/talker/generate", json={"text_input": "Grüß dich", "temperature": 0})
        assert answer.json() == {"model_name": "talker", "model_version": "1", "text_output": "Grüß dich"}
        assert "prefill;dur=2.000" in answer.headers["server-timing"]
        (asked,) = talker.asked
        assert (asked.prompt, asked.sampling.temperature) == (tuple("Grüß dich".encode()), 0)
        assert (asked.max_tokens, asked.stop_ids) == (64 - 11, {0})

    def test_infer(self, client, talker):
        answer = client.post("/v2/models/talker/infer", json=infer("once upon", max_tokens=4, stop="c", priority=3))
        assert answer.json()["outputs"] == [
            {"name": "text_output", "datatype": "BYTES", "shape": [1], "data": ["on"]}
        ]  # fmt: skip
        assert talker.asked[0].service_class is BATCH
        assert talker.asked[0].max_tokens == 4

    def test_a_plain_call(self, client):
        answer = client.post("/v1/models/talker/call", content=b"once")
        assert answer.json()["outputs"] == {"text_output": ["once"]}

    def test_a_receipt(self, client):
        answer = client.post("/v2/models/talker/generate", json={"text_input": "a", "sandseal.receipt": "once"})
        assert answer.headers["sandseal-receipt"].endswith("once")

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({"text_input": "x" * 64}, "64"),
            ({"text_input": ["a", "b"]}, "2 values"),
            ({"text_input": "a", "mood": 1}, "mood"),
            ({"text_input": "a", "temperature": "hot"}, "temperature"),
            ({"text_input": "a", "max_tokens": 0}, "max_tokens"),
        ],
    )
    @pytest.mark.parametrize("path", ["generate", "generate_stream"])
    def test_refusals(self, client, path, body, words):
        answer = client.post(f"/v2/models/talker/{path}", json=body)
        assert answer.status_code == 400
        assert words in answer.json()["error"]

    def test_bytes_that_are_no_text(self, client):
        head = b'{"inputs":[{"name":"text_input","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}}]}'
        answer = client.post(
            "/v2/models/talker/infer",
            content=head + b"\1\0\0\0\xff",
            headers={"Inference-Header-Content-Length": str(len(head))},
        )
        assert (answer.status_code, "UTF-8" in answer.json()["error"]) == (400, True)


class TestStreams:
    def test_pieces_are_events(self, client):
        answer = client.post(
            "/v2/models/talker/generate_stream", json={"text_input": "Grüß", "id": "7", "stream": True}
        )
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        found = events(answer.text)
        assert "".join(event["text_output"] for event in found) == "Grüß"
        assert {(event["id"], event["model_name"]) for event in found} == {("7", "talker")}
        assert len(found) == 5  # no half of a character, and the end

    def test_a_failure_on_the_way_is_an_event(self, client, talker):
        talker.breaks_at = 2
        answer = client.post("/v2/models/talker/generate_stream", json={"text_input": "once"})
        assert answer.status_code == 200
        *pieces, last = events(answer.text)
        assert "".join(event["text_output"] for event in pieces) == "on"
        assert last["error"] == "the lane broke"

    def test_a_failure_at_once_is_a_status(self, client, talker):
        talker.breaks_at = 0
        answer = client.post("/v2/models/talker/generate_stream", json={"text_input": "once"})
        assert (answer.status_code, answer.json()["error"]) == (500, "the lane broke")

    def test_no_receipts(self, client):
        body = {"text_input": "once", "sandseal.receipt": True}
        assert client.post("/v2/models/talker/generate_stream", json=body).status_code == 501


@contextmanager
def asking(served: Listening, body: dict, path: str = "/v2/models/talker/generate_stream"):
    """A connection that has sent a request and reads nothing."""
    text = json.dumps(body).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", served.port))
        head = f"POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer root\r\nContent-Length: {len(text)}\r\n\r\n"
        connection.sendall(head.encode() + text)
        yield connection


class Steps(Talker):
    """Goes on by one token for each `release`."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = asyncio.Semaphore(0)


CHAT = {"model": "talker", "messages": [{"role": "user", "content": "once upon a time"}], "stream": True}
ASKED = [
    ("/v2/models/talker/generate_stream", {"text_input": "once upon a time"}),
    ("/v2/models/talker/generate", {"text_input": "once upon a time"}),
    ("/v2/models/talker/infer", infer("once upon a time")),
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", CHAT | {"n": 3}),
    ("/v1/chat/completions", CHAT | {"stream": False}),
]


@pytest.mark.parametrize(("path", "body"), ASKED)
@pytest.mark.parametrize("released", [0, 2], ids=["before the first piece", "later"])
def test_who_leaves_frees_the_stream(path, body, released):
    talker = Steps()
    with Listening(talker) as served:
        with asking(served, body, path):
            wait_until(lambda: talker.streams)
            for _ in range(released * len(talker.streams)):
                served.call(talker.steps.release)
            time.sleep(0.05)
        wait_until(lambda: all(stream.ended for stream in talker.streams))
        wait_until(lambda: served.answers("talker"))
        assert served.answers("talker") == {499: 1}


def endless(size: int) -> Talker:
    talker = Talker()
    talker.for_ever = "x" * size
    return talker


@pytest.mark.slow
def test_who_does_not_read_holds_up_the_own_stream_alone_and_is_ended():
    talker = endless(10_000)
    limits = ConnectionLimits(slow_s=1.0, slow_bytes_s=1000)
    with Listening(talker, Talker("other"), limits=limits) as served, asking(served, {"text_input": "a"}) as late:
        wait_until(lambda: talker.streams)
        before = served.run(partial(held_up, talker))
        answer = httpx.post(f"{served.url}/v2/models/other/generate", json={"text_input": "once"}, headers=ROOT)
        assert answer.json()["text_output"] == "once"
        wait_until(lambda: talker.streams[0].ended)
        assert talker.said < before + 2 * BUFFER
        wait_until(lambda: served.answers("talker") == {499: 1})
        assert read_to_its_end(late) < 10_000 * talker.said


async def held_up(talker: Talker) -> int:
    """How much it has said when it says nothing more, however many turns it gets."""
    before = -1
    while talker.said != before:
        before = talker.said
        for _ in range(1000):
            await asyncio.sleep(0)
    return before


def read_to_its_end(connection: socket.socket) -> int:
    """How many bytes still come of a connection that the other side has ended."""
    size = 0
    with suppress(ConnectionError):
        while piece := connection.recv(1 << 20):
            size += len(piece)
    return size


@pytest.mark.slow
def test_who_reads_slowly_but_steadily_is_served_on():
    talker = endless(1000)
    limits = ConnectionLimits(slow_s=3.0, slow_bytes_s=1000)
    with Listening(talker, limits=limits) as served, asking(served, {"text_input": "a"}) as slow:
        wait_until(lambda: talker.said > BUFFER)
        for _ in range(900):
            assert slow.recv(4_000)
            time.sleep(0.005)
        assert not talker.streams[0].ended


def test_a_connection_goes_on_after_a_stream():
    with Listening(Talker()) as served, httpx.Client(headers=ROOT) as client:
        for _ in range(3):
            answer = client.post(f"{served.url}/v2/models/talker/generate_stream", json={"text_input": "once"})
            assert "".join(event["text_output"] for event in events(answer.text)) == "once"
            assert client.get(f"{served.url}/v2/health/live").status_code == 200


def test_many_at_once():
    with Listening(Talker()) as served, httpx.Client(headers=ROOT) as client:
        found = []

        def ask(number: int) -> None:
            answer = client.post(f"{served.url}/v2/models/talker/generate_stream", json={"text_input": f"no. {number}"})
            found.append("".join(event["text_output"] for event in events(answer.text)) == f"no. {number}")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert found == [True] * 20


def test_both_faces_stream_the_same_bytes():
    app = HostDouble(ModelsDouble(Talker())).app
    asgi, own = Face(app, HttpToolsProtocol), Face(app, DataPlaneProtocol)
    for path, body in ASKED[:3]:
        target = path.encode()
        sent = [request(json.dumps(body).encode(), target=target), request(b"{}", target=target)]
        theirs, ours = run(asgi.talk(sent)), run(own.talk(sent))
        assert ours == theirs
        assert b"200 OK" in ours[0][0]
