"""Requests that nobody's client would send, and a host that has to answer or refuse each of them.

Bodies are made of the protocol's own words, right and wrong; heads of what makes two parsers disagree on where a
request ends; connections are cut, half-closed and fed in pieces.
"""

import json
import re
import socket
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, seed, settings
from hypothesis import strategies as st

from support.hosts import RunningHost

Sent = tuple[list[bytes], bool]
"""Pieces of a connection, and whether its client goes away without waiting."""

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n")
_PATIENCE_S = 60.0  # a host that is busy with other processes' work still answers within it
_BUGS = (b"500",)
_LAST = b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

_TYPES = st.sampled_from(["FP32", "FP16", "BF16", "INT64", "UINT8", "BOOL", "BYTES", "FLOAT", "fp32", "", 7, None])
_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, 1, -1, 2**31, 2**62, 2**63, 1e300, True, None, "1"])
)
_SIZES = st.one_of(st.sampled_from([0, 1, 2, 16, -1, 2**31, 2**62, 2**63, 1.5, "1", None]), st.integers(0, 40))
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_NUMBERS, st.text(max_size=6)), lambda inner: st.lists(inner, max_size=5), max_leaves=20
)
_FITTING = st.lists(st.floats(width=32), min_size=16, max_size=16)
_PARAMETERS = st.dictionaries(
    st.sampled_from(
        [
            "binary_data", "binary_data_size", "binary_data_output", "classification", "priority", "timeout",
            "sandseal.class", "sandseal.receipt", "shared_memory_region", "triton_x", "x",
        ]
    ),
    st.one_of(_NUMBERS, st.booleans(), st.text(max_size=4), st.just({}), st.sampled_from([64, "batch"])),
    max_size=3,
)  # fmt: skip


_INPUTS = st.fixed_dictionaries(
    {"name": st.sampled_from(["x", "x", "x", "y", "", 1])},
    optional={
        "shape": st.one_of(st.just([1, 16]), st.lists(_SIZES, max_size=4), _VALUES),
        "datatype": _TYPES,
        "data": st.one_of(_FITTING, _VALUES),
        "parameters": _PARAMETERS,
    },
)
_OUTPUTS = st.fixed_dictionaries({"name": st.sampled_from(["y", "y", "z"])}, optional={"parameters": _PARAMETERS})
DOCUMENTS = st.one_of(
    st.fixed_dictionaries(
        {"inputs": st.one_of(st.lists(_INPUTS, max_size=2), _VALUES)},
        optional={"outputs": st.lists(_OUTPUTS, max_size=2), "parameters": _PARAMETERS, "id": _VALUES},
    ),
    _VALUES,
)


_ROW = struct.pack("<16f", *range(16))
_GOOD = {"name": "x", "shape": [1, 16], "datatype": "FP32"}
_SIZED = json.dumps({"inputs": [{**_GOOD, "parameters": {"binary_data_size": 64}}]}).encode()
_BINARY = b"Inference-Header-Content-Length: %d" % len(_SIZED)
# What a client could have sent, with the line that goes with it.
_SAMPLES = (
    (
        json.dumps({"inputs": [{**_GOOD, "data": [*range(16)]}], "id": "7", "parameters": {"priority": 1}}).encode(),
        None,
    ),
    (json.dumps({"inputs": [{**_GOOD, "data": [[0.5] * 16]}], "outputs": [{"name": "y"}]}).encode(), None),
    (json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "BYTES", "data": ["a", ""]}]}).encode(), None),
    (_SIZED + _ROW, _BINARY),
    (_ROW, b"Inference-Header-Content-Length: 0"),
    (json.dumps({"x": ["a"]}).encode(), None),
)
_WORDS = (
    *(
        b'"',
        b"{",
        b"[",
        b"}",
        b"]",
        b",",
        b":",
        b"\\u0000",
        b"\\ud800",
        b"null",
        b"NaN",
        b"-0",
        b"1e999",
        b"\xff",
        b"\0",
    ),
    *(b"9007199254740993", b"9" * 5000, b"[" * 70, b"\xef\xbb\xbf", b'"classification":9', b'"data":', b"true"),
)
_EDITS = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 9), st.sampled_from((*_WORDS, b""))), max_size=3)


@st.composite
def _bodies(draw: Any) -> tuple[bytes, bytes | None]:
    """A body and the line that says how to read it."""
    if draw(st.integers(0, 3)) == 0:
        return json.dumps(draw(DOCUMENTS)).encode(errors="surrogatepass"), None
    body, line = draw(st.sampled_from(_SAMPLES))
    for place, length, word in draw(_EDITS):
        at = place * len(body) // 255
        body = body[:at] + word + body[at + length :]
    return body, line


_TARGETS = st.sampled_from(
    [
        *["/v2/models/acme.same/infer"] * 6, "/v2/models/acme.text/infer", "/v2/models/acme.same/versions/1/infer",
        "/v2/models/acme.same/generate", "/v2/models/acme.same/generate_stream", "/v1/models/acme.text/call",
        "/v2/models/acme.same", "/v2/models/acme.same/config", "/v2/models/stats", "/v2/repository/index",
        "/v2/models/none/infer", "/v2/models/%00/infer", "/v2/models/../../x/infer", "//", "*", "/%", "/v2/logging",
        "http://h/v2/models/acme.same/infer", "/v2/trace/setting", "/v1/bundles", "/v1/tokens", "/problems/x",
        "/openapi.json", "/v1/log/proof?index=99999999999999999999", "/v1/models/acme.text/call?version=x",
        "/v1/chat/completions", "/v1/embeddings",
    ]
)  # fmt: skip
_LINES = st.lists(
    st.sampled_from(
        [
            b"Content-Type: application/json", b"Content-Type: multipart/form-data; boundary=x", b"Content-Type: \xff",
            b"Content-Encoding: gzip", b"Content-Encoding: br", b"Accept-Encoding: gzip", b"Accept-Encoding: ,;q=",
            b"Inference-Header-Content-Length: 0", b"Inference-Header-Content-Length: 20", b"Connection: close",
            b"Inference-Header-Content-Length: -1", b"Inference-Header-Content-Length: 4294967300",
            b"Expect: 100-continue", b"Expect: x", b"Connection: upgrade", b"Upgrade: h2c", b"Sandseal-Receipt: n",
            b"Sandseal-Receipt: \x80", b"traceparent: 00-x", b"X: " + b"y" * 40_000, b"X-Request-Id: \x00",
            b"Content-Length: 5", b"Content-Length: +5", b"Content-Length: 0x5", b"Content-Length: 9999999999999999999",
            b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: xchunked",
            b"Transfer-Encoding : chunked", b"X: a\r\n folded", b"X", b": empty", b"\x00: x", b"Host: other",
            b"Authorization: Bearer wrong", b"Range: bytes=0-", b"Content-Range: bytes 1-2/3",
        ]
    ),
    max_size=2,
)  # fmt: skip
_METHODS = st.sampled_from([b"POST"] * 8 + [b"GET", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"X"])
_VERSIONS = st.sampled_from([b"HTTP/1.1"] * 10 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b"", b"ICY"])


def _chunked(body: bytes, draw: Any) -> bytes:
    at = draw(st.integers(0, len(body)))
    size = draw(st.sampled_from([b"%x", b"%X;ext=1", b"0000%x", b"+%x", b"0x%x", b" %x", b"%x\t"]))
    parts = b"".join(size % len(part) + b"\r\n" + part + b"\r\n" for part in (body[:at], body[at:]) if part)
    ends = (b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nX: trailer\r\n\r\n", b"0\r\n", b"", b"fffffffffffffffff\r\n")
    return parts + draw(st.sampled_from(ends))


@st.composite
def _requests(draw: Any) -> bytes:
    body, line = draw(_bodies())
    lines = [b"Host: h", b"Authorization: Bearer TOKEN", *([line] if line else []), *draw(_LINES)]
    match draw(st.sampled_from(["length"] * 6 + ["gzip", "chunked", "both", "none", "short"])):
        case "length":
            lines.append(b"Content-Length: %d" % len(body))
        case "gzip":
            body = zlib.compress(body, wbits=31)
            lines += [b"Content-Encoding: gzip", b"Content-Length: %d" % len(body)]
        case "chunked":
            body = _chunked(body, draw)
            lines.append(b"Transfer-Encoding: chunked")
        case "both":
            lines += [b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked"]
            body = _chunked(body, draw)
        case "short":
            lines.append(b"Content-Length: %d" % (len(body) + 10))
    newline = draw(st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r"]))
    start = b" ".join((draw(_METHODS), draw(_TARGETS).encode(), draw(_VERSIONS)))
    return newline.join((start, *lines, b"", b"")) + body


@st.composite
def connections(draw: Any) -> Sent:
    """What one client sends over one connection."""
    sent = b"".join(draw(st.lists(_requests(), min_size=1, max_size=3)))
    sent = draw(st.sampled_from([sent, sent, sent, sent[: len(sent) // 2], draw(st.binary(max_size=30)) + sent]))
    cuts = sorted({0, len(sent), *draw(st.lists(st.integers(0, len(sent)), max_size=4))})
    pieces = [sent[a:b] for a, b in pairwise(cuts)]
    leaves = draw(st.sampled_from([False] * 9 + [True]))
    return (pieces if leaves else [*pieces, _LAST]), leaves


# Nothing wrong with it: each round asks it too, and sees that a host under all this still answers.
_HEAD = b"POST /v2/models/acme.same/infer HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer TOKEN\r\n"
_PROPER = [_HEAD + b"Content-Length: %d\r\n\r\n" % len(_SAMPLES[0][0]) + _SAMPLES[0][0], _LAST], False


def survives(host: RunningHost, sent: Sent, seen: "Counter[int]") -> None:
    """Send it, and see that the host answers or closes in time, and never with a fault of its own."""
    pieces, leaves = sent
    received = b""
    with socket.create_connection(("127.0.0.1", host.port), timeout=_PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                connection.sendall(piece.replace(b"TOKEN", host.token.encode()))
            if leaves:
                return
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                received += chunk
        except TimeoutError:
            raise AssertionError(f"the host hangs after {received[-500:]!r}") from None
        except OSError:
            pass  # it closed the connection first
    statuses = [found[1] for found in _STATUS.finditer(received)]
    assert not set(statuses) & set(_BUGS), received[-2000:]
    seen.update(map(int, statuses))


def fuzz(host: RunningHost, seconds: float, tick: Callable[[], None] = lambda: None) -> "Counter[int]":
    """Fresh connections, those of one seed after another, until the time is over; the statuses that were answered.

    Args:
        tick: called after every hundred.
    """
    seen: Counter[int] = Counter()

    @settings(
        max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(connections())
    @example(_PROPER)
    def examples(sent: Sent) -> None:
        survives(host, sent, seen)

    end, seeds = time.monotonic() + seconds, count()
    while time.monotonic() < end:
        seed(next(seeds))(examples)()
        tick()
    return seen
