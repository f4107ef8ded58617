"""Both faces of the data plane say the same, whatever is sent."""

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.double import HostDouble, ModelsDouble, identity, mlp, pair
from api.test_infer import tensor
from api.wire import Face, ThreadCountingLoop
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.api.settings import ApiSettings
from support import triton_record

RECORDED = [
    ("identity", "FP32", "batch", 16), ("versions", "FP32", "batch", 16), ("fixed", "FP32", 2, 3),
    ("flags", "BOOL", "batch", 4), ("bytes8", "UINT8", "batch", 4), ("half", "FP16", "batch", 4),
]  # fmt: skip


class Faces:
    """One host behind both faces."""

    def __init__(self) -> None:
        models = [mlp(), pair(), identity("text", "BYTES", "batch", "n"), identity("wide", "FP32", "batch", "n")]
        models += [identity(name, dtype, *shape) for name, dtype, *shape in RECORDED]
        app = HostDouble(ModelsDouble(*models), ApiSettings(auth_failures=10**9)).app
        self._runner = asyncio.Runner(loop_factory=ThreadCountingLoop)
        self.asgi, self.protocol = Face(app, HttpToolsProtocol), Face(app, DataPlaneProtocol)

    def compare(self, *pieces: bytes) -> list[bytes]:
        """What both answer."""
        asgi, asgi_closed = self._runner.run(self.asgi.talk(list(pieces)))
        protocol, protocol_closed = self._runner.run(self.protocol.talk(list(pieces)))
        assert protocol_closed == asgi_closed
        if asgi and asgi[-1].endswith(b"Invalid HTTP request received."):
            # That ends the connection, and with it what ASGI has not begun to answer; a direct answer is there already.
            found = iter(protocol)
            assert all(answer in found for answer in asgi)
        else:
            assert protocol == asgi
        return protocol

    def close(self) -> None:
        self._runner.close()


@pytest.fixture(scope="module")
def faces() -> Iterator[Faces]:
    made = Faces()
    made.compare(request(JSON))  # from now on the token is known
    yield made
    made.close()


def request(body: bytes, *lines: bytes, target: bytes = b"/v2/models/wide/infer", **more: bytes) -> bytes:
    method, version = more.get("method", b"POST"), more.get("version", b"1.1")
    length = more.get("length", b"Content-Length: %d" % len(body))
    token = more.get("token", b"Authorization: Bearer root")
    head = (b"%b %b HTTP/%b" % (method, target, version), b"Host: h", *filter(None, (token, length)), *lines)
    return b"\r\n".join((*head, b"", body))


X = np.arange(3, dtype=np.float32)
JSON = json.dumps({"inputs": [tensor(shape=(1, 3), data=[1, 2, 3])]}).encode()
_HEAD = json.dumps(
    {
        "inputs": [tensor(shape=(1, 3), parameters={"binary_data_size": 12})],
        "parameters": {"binary_data_output": True},
    }
).encode()
BINARY = _HEAD + X.tobytes()
LENGTH = b"Inference-Header-Content-Length: %d" % len(_HEAD)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(JSON), JSON)
TE = b"Transfer-Encoding: chunked"

SHAPES = {
    "json": request(JSON),
    "binary": request(BINARY, LENGTH),
    "chunked": request(CHUNKED, TE, length=b""),
    "old": request(JSON, version=b"1.0"),
    "last": request(JSON, b"Connection: close"),
    "query": request(JSON, target=b"/v2/models/wide/infer?x=1"),
    "escaped": request(JSON, target=b"/v2/models/%77ide/infer"),
    "absolute": request(JSON, target=b"http://h/v2/models/wide/infer"),
    "not UTF-8": request(JSON, target=b"/v2/models/%ff/infer"),
    "no such model": request(JSON, target=b"/v2/models/none/infer"),
    "no token": request(JSON, token=b""),
    "wrong token": request(JSON, token=b"Authorization: Bearer who"),
    "no JSON": request(b"{"),
    "left over": request(BINARY + b"x", LENGTH),
    "nonsense length": request(BINARY, b"Inference-Header-Content-Length: -1"),
    "multipart": request(JSON, b"Content-Type: multipart/form-data; boundary=x"),
    "not gzip": request(JSON, b"Content-Encoding: gzip"),
    "GET": request(b"", method=b"GET"),
    "PUT": request(JSON, method=b"PUT"),
    "no body": request(b""),
    "health": request(b"", method=b"GET", target=b"/v2/health/ready"),
    "the control plane's": request(b"", method=b"GET", target=b"/nowhere"),
    "compressed": request(JSON, b"Accept-Encoding: gzip"),
    "compressed, binary": request(BINARY, LENGTH, b"Accept-Encoding: deflate"),
    "classes": request(JSON.replace(b"{", b'{"outputs": [{"name": "y", "parameters": {"classification": 2}}], ', 1)),
    "receipt": request(JSON, b"Sandseal-Receipt: once"),
    "bad nonce": request(JSON, b"Sandseal-Receipt: a b"),
    # shapes that make two parsers disagree on where a request ends
    "both lengths": request(CHUNKED, TE),
    "two lengths": request(JSON, b"Content-Length: 5"),
    "equal lengths": request(JSON, b"Content-Length: %d" % len(JSON)),
    "a sign": request(JSON, length=b"Content-Length: +%d" % len(JSON)),
    "hexadecimal": request(JSON, length=b"Content-Length: 0x%x" % len(JSON)),
    "huge": request(JSON, length=b"Content-Length: 99999999999999999999999"),
    "spaced name": request(JSON, length=b"Content-Length : %d" % len(JSON)),
    "folded": request(JSON, b"X: a\r\n b"),
    "twice chunked": request(CHUNKED, TE, TE, length=b""),
    "unknown coding": request(CHUNKED, b"Transfer-Encoding: chunked, gzip", length=b""),
    "bare newlines": request(JSON).replace(b"\r\n", b"\n"),
    "bare newlines, and an end in the body": request(b" \r\n\r\n " + JSON).replace(b"\r\n", b"\n", 5),
    "an end in the body": request(b" \r\n\r\n " + JSON),
    "newlines before": b"\r\n\r\n" + request(JSON),
    "newlines behind": request(JSON) + b"\r\n",
    "a name in capitals": request(JSON, b"ACCEPT-ENCODING: GZIP"),
    "an id": request(JSON, b"X-Request-Id: abc"),
    "no version": b"POST /v2/models/wide/infer\r\n\r\n",
}


@pytest.mark.parametrize("name", SHAPES)
def test_one_request(faces, name):
    faces.compare(SHAPES[name])


@pytest.mark.parametrize("name", SHAPES)
def test_a_request_behind_another(faces, name):
    faces.compare(SHAPES["binary"] + SHAPES[name] + SHAPES["json"])


@pytest.mark.parametrize("name", SHAPES)
def test_a_request_again_and_again(faces, name):
    faces.compare(*[SHAPES[name]] * 4)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SHAPES)), st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=9))
def test_a_request_among_others_in_pieces(faces, name, turns):
    pieces = [b""]
    for own, cut in turns:
        sent = SHAPES[name] if own else SHAPES["json"]
        pieces += [sent[:cut], sent[cut:]]
    faces.compare(*filter(None, pieces))


def test_what_a_real_triton_was_asked(faces):
    recorded = triton_record.requests()
    assert len(recorded) > 200
    for _, method, path, headers, body in recorded:
        if path.startswith(("/v2/repository", "/metrics")):  # another answer each time, and no face's own
            continue
        lines = [f"{name}: {value}".encode() for name, value in headers.items()]
        length = b"Content-Length: %d" % len(body)
        if "Transfer-Encoding" in headers:
            body, length = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body), b""
        faces.compare(request(body, *lines, target=path.encode(), method=method.encode(), length=length))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=4), st.lists(st.integers(0, 2000), max_size=6))
def test_any_requests_in_any_pieces(faces, names, cuts):
    sent = b"".join(SHAPES[name] for name in names)
    edges = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    faces.compare(*(sent[a:b] for a, b in pairwise(edges)))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 400), st.binary(max_size=3))
def test_damaged_requests(faces, name, at, noise):
    sent = bytearray(SHAPES[name])
    sent[at : at + len(noise)] = noise
    faces.compare(bytes(sent), SHAPES["json"])
