"""Compressed bodies and what they may not do."""

import gzip
import zlib

import pytest

from sandseal_host.api.answer import Answer
from sandseal_host.api.compression import compress, decompress, wanted_coding
from sandseal_host.api.errors import EncodingUnsupported
from sandseal_host.errors import RequestInvalid, TooLarge

PLAIN = b"some text " * 1000


@pytest.mark.parametrize(
    ("encoding", "pack"), [(b"gzip", gzip.compress), (b" GZip ", gzip.compress), (b"deflate", zlib.compress)]
)
def test_both_encodings(encoding, pack):
    assert decompress(memoryview(pack(PLAIN)), encoding, len(PLAIN)) == PLAIN


def test_a_bomb_is_cut_off_at_the_limit():
    bomb = gzip.compress(bytes(50_000_000))
    with pytest.raises(TooLarge) as refusal:
        decompress(memoryview(bomb), b"gzip", 100_000)
    assert refusal.value.data == {"limit": 100_000, "got": len(bomb)}


def test_a_ratio():
    body = gzip.compress(bytes(3 << 20))
    with pytest.raises(TooLarge) as refusal:
        decompress(memoryview(body), b"gzip", 64 << 20, 400)
    assert refusal.value.data["limit"] == 400 * len(body)
    assert len(decompress(memoryview(body), b"gzip", 64 << 20, 1100)) == 3 << 20
    small = gzip.compress(bytes(1 << 20))
    assert len(decompress(memoryview(small), b"gzip", 64 << 20, 2)) == 1 << 20


@pytest.mark.parametrize(
    "body",
    [b"", b"text", gzip.compress(PLAIN)[:-1], gzip.compress(PLAIN) * 2, zlib.compress(PLAIN)],
    ids=["empty", "text", "cut short", "twice", "deflate"],
)
def test_not_what_it_says(body):
    with pytest.raises(RequestInvalid):
        decompress(memoryview(body), b"gzip", 1 << 20)


@pytest.mark.parametrize("encoding", [b"br", b"gzip, gzip", b"", b"zstd"])
def test_other_encodings(encoding):
    with pytest.raises(EncodingUnsupported):
        decompress(memoryview(b""), encoding, 10)


@pytest.mark.parametrize("accept", [b"gzip", b" GZip ; q=0.5", b"gzip;q=1"])
def test_a_client_that_wants_its_answer_compressed(accept):
    assert wanted_coding(accept) == b"gzip"


@pytest.mark.parametrize(
    "accept",
    [b"", b"br", b"gzip, deflate", b"gzip, deflate, br", b"gzip;q=0", b"gzip;q=x", b"identity", b"*", b","],
)
def test_clients_that_do_not(accept):
    assert wanted_coding(accept) is None


@pytest.mark.parametrize(("coding", "unpack"), [(b"gzip", gzip.decompress), (b"deflate", zlib.decompress)])
def test_answers(coding, unpack):
    answer = Answer(200, PLAIN, tail=(memoryview(PLAIN), memoryview(b"end")))
    small = compress(answer, coding)
    assert unpack(small.body) == PLAIN + PLAIN + b"end"
    assert small.tail == ()
    assert small.headers == (*answer.headers, (b"content-encoding", coding))
