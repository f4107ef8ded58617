import hashlib
import io

import pytest

from sandseal_signing.digest import CHUNK, Digest, hash_file, is_hex_digest, read_chunks
from sandseal_signing.errors import FormatError


def test_a_digest_is_sha_256_in_lower_case_hex() -> None:
    assert Digest.of(b"abc").hex == hashlib.sha256(b"abc").hexdigest()
    assert str(Digest.of(b"")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert Digest.of(memoryview(b"abc")) == Digest.of(b"abc")


@pytest.mark.parametrize(
    "text", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n", "0x" + "0" * 62, "\u0660" * 64]
)
def test_what_is_no_digest(text: str) -> None:
    assert not is_hex_digest(text)
    with pytest.raises(FormatError, match="is not a SHA-256 digest"):
        Digest(text)


class Dribble:
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def readinto(self, buffer: memoryview, /) -> int:
        return self._file.readinto(buffer[:1000])


def test_hashing_a_file_reports_every_byte() -> None:
    data = bytes(range(256)) * 8192 + b"tail"
    for file in (io.BytesIO(data), Dribble(data)):
        lengths: list[int] = []
        assert hash_file(file, lengths.append) == (Digest.of(data), len(data))
        assert sum(lengths) == len(data)
        assert max(lengths) <= CHUNK
    assert hash_file(io.BytesIO(b"")) == (Digest.of(b""), 0)


def test_hashing_starts_where_the_file_stands() -> None:
    file = io.BytesIO(b"headerbody")
    file.seek(6)
    assert hash_file(file) == (Digest.of(b"body"), 4)


def test_chunks_are_valid_until_the_next_one() -> None:
    assert [bytes(chunk) for chunk in read_chunks(Dribble(b"x" * 2500))] == [b"x" * 1000, b"x" * 1000, b"x" * 500]
