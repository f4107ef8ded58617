"""Reading a body once, within limits, and placing it so that tensors lie aligned."""

import asyncio

import numpy as np
import pytest

from sandseal_host.api.exchange import Exchange
from sandseal_host.errors import ClientGone, TooLarge


def exchange(*messages, length=None):
    left = list(messages)

    async def receive():
        return left.pop(0)

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    return Exchange(
        {"type": "http", "method": "POST", "headers": headers, "query_string": b"a=1&b=x%20y"}, receive
    ), left


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def read(sent, limit=100, lead=0):
    return asyncio.run(sent[0].body(limit, lead))


GONE = {"type": "http.disconnect"}


def test_one_piece_is_not_copied():
    body = b"x" * 50
    assert read(exchange(part(body, more=False))).obj is body
    assert bytes(read(exchange({"type": "http.request"}))) == b""


@pytest.mark.parametrize("lead", [0, 1, 7, 33, 64])
def test_pieces_are_put_together_aligned(lead):
    body = bytes(range(90))
    whole = read(exchange(part(body[:10]), part(b""), part(body[10:64]), part(body[64:], more=False)), lead=lead)
    assert bytes(whole) == body
    assert (np.frombuffer(whole, np.uint8).ctypes.data + lead) % 64 == 0


def test_too_large_before_anything_is_read():
    sent = exchange(part(b"x"), length=101)
    with pytest.raises(TooLarge):
        read(sent)
    assert len(sent[1]) == 1


def test_too_large_without_saying_so():
    with pytest.raises(TooLarge):
        read(exchange(part(b"x" * 101, more=False)))
    sent = exchange(part(b"x" * 60), part(b"x" * 60), part(b"x"))
    with pytest.raises(TooLarge):
        read(sent)
    assert len(sent[1]) == 1
    assert len(read(exchange(part(b"x" * 60), part(b"x" * 40, more=False)))) == 100


def test_client_that_goes_away():
    for messages in ((GONE,), (part(b"x"), GONE)):
        with pytest.raises(ClientGone):
            read(exchange(*messages))


def test_query_and_address():
    sent, _ = exchange()
    assert sent.query("b") == "x y"
    assert sent.query("c") == ""
    assert sent.address == "unknown"
    sent.scope["client"] = ("10.0.0.1", 5)
    assert sent.address == "10.0.0.1"
