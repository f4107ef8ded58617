"""Heads that came before on a connection."""

import asyncio

import pytest

from api.double import HostDouble, ModelsDouble, identity
from api.test_faces import BINARY, JSON, LENGTH, request
from api.wire import Face, opened_on_a_loop, settled
from sandseal_host.api import head
from sandseal_host.api.forms import Layout
from sandseal_host.api.head import Head, Heads
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.api.routes import Action, Route

ROUTE = Route(Action.INFER, "wide")


def made(size: int) -> Head:
    return Head(ROUTE, {}, None, size, Layout(100))


class TestHeads:
    def test_a_request_is_its_head_and_just_its_body(self):
        heads, known = Heads(), made(4)
        heads.remember(b"POST /a HTTP/1.1\r\n\r\nbody", known)
        assert heads.find(b"POST /a HTTP/1.1\r\n\r\nelse") == (known, b"else")
        for other in (b"/a HTTP/1.1\r\n\r\nbod", b"/a HTTP/1.1\r\n\r\nbodyP", b"/b HTTP/1.1\r\n\r\nbody"):
            assert heads.find(b"POST " + other)[0] is None

    @pytest.mark.parametrize(
        "data",
        [
            b"POST /a HTTP/1.1\nA: b\n\nof the body\r\n\r\n",
            b"POST /a HTTP/1.1\r\nA: b\nB: c\r\n\r\nbody",
            b"\r\n\r\nPOST /a HTTP/1.1\r\n\r\nbody",
            b"POST /a HTTP/1.1\r\nA: b\r\n",
            b"POST /a HTTP/1.1\r\nA: " + b"b" * 2048 + b"\r\n\r\n",
            b"",
        ],
        ids=["bare newlines", "one bare newline", "newlines before", "no end", "too long", "nothing"],
    )
    def test_what_might_end_elsewhere_or_is_large_is_not_kept(self, data):
        heads = Heads()
        heads.remember(data, made(0))
        assert heads.find(data)[0] is None

    def test_few_are_kept(self, monkeypatch):
        monkeypatch.setattr(head, "_MAX_KNOWN", 2)
        heads, sent = Heads(), [b"POST /%d HTTP/1.1\r\n\r\n" % i for i in range(3)]
        for data in sent:
            heads.remember(data, made(0))
        assert [heads.find(data)[0] is None for data in sent] == [True, True, False]


class Parsed(DataPlaneProtocol):
    """A connection that counts what its parser begins."""

    begun = 0

    def on_message_begin(self) -> None:
        self.begun += 1
        super().on_message_begin()


class Connected:
    async def open(self) -> "Connected":
        self.model = identity("wide", "FP32", "batch", "n")
        self.host = HostDouble(ModelsDouble(self.model))
        self.connection, self.wire = Face(self.host.app, Parsed).connect()
        return self

    async def ask(self, sent: bytes) -> bytes:
        """The status line of the answer."""
        del self.wire.written[:]
        self.connection.data_received(sent)
        await settled(self.wire)
        return bytes(self.wire.written).partition(b"\r\n")[0]


on_a_loop = opened_on_a_loop(Connected)


@on_a_loop
async def test_the_third_needs_no_parser(one):
    for sent in (request(JSON), request(BINARY, LENGTH)):
        one.connection.begun = 0
        assert [await one.ask(sent) for _ in range(5)] == [b"HTTP/1.1 200 OK"] * 5
        assert one.connection.begun == (2 if sent == request(JSON) else 1)  # one more for the token


@on_a_loop
async def test_it_is_let_in_as_any_other(one):
    for _ in range(3):
        await one.ask(request(JSON))
    one.host.tokens.grants.clear()
    one.host.app.endpoint.door.forget("root")
    assert await one.ask(request(JSON)) == b"HTTP/1.1 401 Unauthorized"
    one.model.state = "unloaded"
    assert await one.ask(request(JSON)) == b"HTTP/1.1 401 Unauthorized"


@on_a_loop
async def test_the_next_one_waits_for_its_answer(one):
    for _ in range(3):
        await one.ask(request(JSON))
    one.model.gate = asyncio.Event()
    assert await one.ask(request(JSON)) == b""
    one.connection.data_received(request(JSON))
    one.model.gate.set()
    await settled(one.wire)
    assert one.wire.written.count(b"HTTP/1.1 200 OK") == 2


@on_a_loop
async def test_one_that_comes_as_the_server_stops_is_the_last(one):
    for _ in range(3):
        await one.ask(request(JSON))
    one.connection.shutdown()
    assert await one.ask(request(JSON)) == b"HTTP/1.1 200 OK"
    assert b"connection: close" in one.wire.written
    assert one.wire.closed


@on_a_loop
async def test_what_comes_after_the_last_is_not_asked(one):
    for _ in range(3):
        await one.ask(request(JSON))
    assert await one.ask(request(JSON, b"Connection: close")) == b"HTTP/1.1 200 OK"
    assert one.wire.closed
    assert await one.ask(request(JSON)) == b""  # as it may still come through TLS
    assert len(one.model.requests) == 4
