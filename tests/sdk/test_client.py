"""What the client makes of the host's refusals."""

import json

import httpx
import pytest

from sandseal_sdk.client import Client
from sandseal_sdk.errors import HostRefused, HostUnreachable


def client_of(answer: httpx.Response) -> Client:
    client = Client("http://host")
    client._http = httpx.Client(base_url="http://host", transport=httpx.MockTransport(lambda _: answer))
    return client


def refusal(status: int, content: bytes, **headers: str) -> HostRefused:
    answer = httpx.Response(status, content=content, headers=headers)
    with client_of(answer) as client, pytest.raises(HostRefused) as refused:
        client.models()
    return refused.value


def test_the_host_s_code_hint_and_facts_are_kept() -> None:
    body = {"error": "no", "code": "queue_full", "hint": "later", "waiting": 7}
    refused = refusal(503, json.dumps(body).encode(), **{"Retry-After": "3"})
    assert (refused.message, refused.status, refused.code, refused.hint) == ("no", 503, "queue_full", "later")
    assert refused.retry_after == 3.0
    assert refused.data == {"waiting": 7}


@pytest.mark.parametrize("name", ["status", "message", "facts", "retry_after", "data", "self", "where"])
def test_facts_may_have_any_name(name: str) -> None:
    refused = refusal(400, json.dumps({"error": "no", "code": "input_refused", name: 1}).encode())
    assert refused.data == {name: 1}
    assert refused.status == 400


@pytest.mark.parametrize("content", [b"", b"Bad Gateway", b"[]", b'"text"', b"{}", b'{"message":"x"}'])
def test_answers_that_are_not_ours_are_told_as_they_are(content: bytes) -> None:
    refused = refusal(502, content)
    assert (refused.status, refused.code) == (502, "unknown")
    assert refused.message


def test_no_answer_is_an_error_of_its_own() -> None:
    def broken(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    client = Client("http://host")
    client._http = httpx.Client(base_url="http://host", transport=httpx.MockTransport(broken))
    with client, pytest.raises(HostUnreachable):
        client.models()
