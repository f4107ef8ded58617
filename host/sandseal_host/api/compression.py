"""Compressed request bodies, with a cap on what comes out (RFC 9110 8.4.1: gzip; deflate is the zlib format)."""

import zlib
from math import inf

from sandseal_host.api.errors import EncodingUnsupported
from sandseal_host.errors import RequestInvalid, TooLarge

_WINDOW = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_IDENTITY = b"identity"
_UNSUSPICIOUS_BYTES = 1 << 20


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
