"""Compressed bodies (RFC 9110 8.4.1: gzip; deflate is the zlib format), with a cap on what comes out of a request's."""

import zlib
from dataclasses import replace
from math import inf

from sandseal_host.api.answer import Answer
from sandseal_host.api.errors import EncodingUnsupported
from sandseal_host.errors import RequestInvalid, TooLarge

_WINDOW = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_IDENTITY = b"identity"
_UNSUSPICIOUS_BYTES = 1 << 20
_LEVEL = 1  # numbers hardly get smaller by more


def decompress(body: memoryview, encoding: bytes, limit: int, ratio: float = inf) -> memoryview:
    """The body without its Content-Encoding.

    Args:
        body: as received.
        encoding: the header's value.
        limit: the most bytes that may come out; no more than that is ever produced.
        ratio: how many times as many may come out as went in, of more than a mebibyte.

    Raises:
        EncodingUnsupported: neither gzip nor deflate.
        RequestInvalid: not what the header says, cut short, or with bytes behind it.
        TooLarge: more bytes come out than may.
    """
    coding = encoding.strip().lower()
    if coding == _IDENTITY:
        return body
    window = _WINDOW.get(coding)
    if window is None:
        raise EncodingUnsupported(f"Content-Encoding {encoding.decode('latin-1')[:40]!r} is not read here")
    limit = int(min(limit, max(_UNSUSPICIOUS_BYTES, ratio * len(body))))
    reader = zlib.decompressobj(window)
    try:
        plain = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise RequestInvalid(f"the body is not {encoding.decode('latin-1')} ({error})") from None
    if len(plain) > limit:
        raise TooLarge(f"{len(body)} bytes have more than {limit} when decompressed", limit=limit, got=len(body))
    if not reader.eof or reader.unused_data:
        raise RequestInvalid("the compressed body is cut short or has bytes behind it")
    return memoryview(plain)


def wanted_coding(accept: bytes) -> bytes | None:
    """The coding that a client wants for its answer: the one that Accept-Encoding names, if it names one alone.

    HTTP libraries send lists such as `gzip, deflate, br` of themselves, which say what they read and not that their
    user wants to wait for it: to compress an answer takes many times as long as to make it.

    Args:
        accept: the header's value.
    """
    (coding, weight), *others = [_weighed(part) for part in accept.split(b",")]
    return coding if not others and weight and coding in _WINDOW else None


def _weighed(part: bytes) -> tuple[bytes, float]:
    coding, _, parameters = part.partition(b";")
    name, _, value = parameters.strip().partition(b"=")
    try:
        return coding.strip().lower(), float(value) if name.strip().lower() == b"q" else 1.0
    except ValueError:
        return coding, 0.0


def compress(answer: Answer, coding: bytes) -> Answer:
    """The answer with its body in this coding, one of those that `wanted_coding` finds."""
    writer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW[coding])
    body = b"".join((writer.compress(answer.body), *map(writer.compress, answer.tail), writer.flush()))
    return replace(answer, body=body, tail=(), headers=(*answer.headers, (b"content-encoding", coding)))
