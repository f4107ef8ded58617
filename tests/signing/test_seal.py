import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandseal_signing.digest import CHUNK, Digest
from sandseal_signing.errors import (
    FileMissing,
    FileUnexpected,
    LimitExceeded,
    SealInvalid,
    SealTruncated,
    SizeMismatch,
)
from sandseal_signing.seal import BLOCK, SealReader, SealWriter, _parse_header, render_header
from sandseal_signing.statement import Resource
from support.bundles import archive, members

EIGHT_GIB = 8 << 30
MEMBERS = [
    ("signatures/00.sig", b"one"),
    ("signatures/11.sig", b"two"),
    ("bundle.json", b"{}"),
    ("empty", b""),
    ("full", b"x" * BLOCK),
    ("large", bytes(range(256)) * 8192 + b"tail"),
    ("p" * 100 + "/" + "n" * 90, b"split"),
]
ARCHIVE = archive(MEMBERS)


def resource(name: str, data: bytes) -> Resource:
    return Resource(name, Digest.of(data), len(data), "x/y")


def read(data: bytes, members: list[tuple[str, bytes]] = MEMBERS) -> dict[str, bytes]:
    """Read an archive as one that must hold these members, and return what it holds."""
    reader = SealReader(io.BytesIO(data))
    found = dict(reader.signatures())
    for name, content in members:
        if not name.startswith("signatures/"):
            found[name] = b"".join(map(bytes, reader.read(resource(name, content))))
    reader.finish()
    return found


def test_what_is_written_is_read() -> None:
    assert read(ARCHIVE) == dict(MEMBERS)
    reader = SealReader(io.BytesIO(ARCHIVE))
    assert dict(reader.signatures()) == dict(MEMBERS[:2])
    found = [(name, size, b"".join(map(bytes, chunks))) for name, size, chunks in reader.members()]
    assert found == [(name, len(data), data) for name, data in MEMBERS[2:]]


def test_chunks_are_at_most_a_mebibyte() -> None:
    reader = SealReader(io.BytesIO(ARCHIVE))
    reader.signatures()
    for _, _, chunks in reader.members():
        assert all(0 < len(chunk) <= CHUNK for chunk in chunks)


def test_a_stream_may_give_a_few_bytes_at_a_time() -> None:
    class Dribble(io.BytesIO):
        def readinto(self, buffer: memoryview, /) -> int:
            return super().readinto(memoryview(buffer)[:700])

    reader = SealReader(Dribble(ARCHIVE))
    reader.signatures()
    assert sum(len(chunk) for _, _, chunks in reader.members() for chunk in chunks) == sum(
        len(d) for _, d in MEMBERS[2:]
    )


def test_any_tar_program_reads_an_archive() -> None:
    with tarfile.open(fileobj=io.BytesIO(ARCHIVE)) as tar:
        for member, (name, data) in zip(tar, MEMBERS, strict=True):
            assert (member.name, member.size, member.type) == (name, len(data), tarfile.REGTYPE)
            assert (member.mode, member.uid, member.gid, member.mtime) == (0o644, 0, 0, 0)
            assert (member.uname, member.gname, member.linkname, member.pax_headers) == ("", "", "", {})
            content = tar.extractfile(member)
            assert content is not None
            assert content.read() == data


@settings(max_examples=100, deadline=None)
@given(st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True), st.integers(0, 2**53))
def test_headers_read_back(name: str, size: int) -> None:
    header = render_header(name, size)
    assert len(header) == BLOCK
    assert _parse_header(header) == (name, size)
    with tarfile.open(fileobj=io.BytesIO(header + bytes(2 * BLOCK))) as tar:
        member = tar.next()
    assert member is not None
    assert (member.name, member.size) == (name, size)


@pytest.mark.parametrize(
    ("size", "field"),
    [
        (0, b"00000000000\0"),
        (511, b"00000000777\0"),
        (EIGHT_GIB - 1, b"77777777777\0"),
        (EIGHT_GIB, b"\x80\0\0\0\0\0\0\x02\0\0\0\0"),
        (2**53 - 1, b"\x80\0\0\0\0\x1f" + b"\xff" * 6),
    ],
)
def test_sizes_are_octal_below_8_gib_and_base_256_from_there(size: int, field: bytes) -> None:
    assert render_header("x", size)[124:136] == field


def test_every_changed_byte_of_a_header_is_refused() -> None:
    for name, size in (("model.onnx", 1234), ("p" * 100 + "/" + "n" * 90, 0), ("x", EIGHT_GIB)):
        header = render_header(name, size)
        for at in range(BLOCK):
            for flip in (0x01, 0x20, 0x80, 0xFF):
                changed = bytearray(header)
                changed[at] ^= flip
                assert _parse_header(bytes(changed)) is None, (name, at, flip)


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=BLOCK, max_size=BLOCK))
def test_no_other_block_is_a_header(block: bytes) -> None:
    assert _parse_header(block) is None


def checksummed(header: bytes) -> bytes:
    blank = header[:148] + b" " * 8 + header[156:]
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]


@pytest.mark.parametrize(
    ("at", "field"),
    [
        (100, b"0000755\0"),
        (100, b"000644 \0"),
        (108, b"0001750\0"),
        (124, b"\x80" + (4).to_bytes(11, "big")),
        (124, b"       4\0\0\0\0"),
        (124, b"4\0\0\0\0\0\0\0\0\0\0\0"),
        (124, b"0000000_004\0"),
        (124, b"\xff" * 12),
        (136, b"14774360000\0"),
        (156, b"\0"),
        (156, b"1"),
        (156, b"2"),
        (156, b"5"),
        (156, b"7"),
        (156, b"x"),
        (156, b"g"),
        (156, b"L"),
        (156, b"S"),
        (157, b"target"),
        (257, b"ustar  \0"),
        (257, b"\0\0\0\0\0\0\0\0"),
        (265, b"root"),
        (297, b"root"),
        (329, b"0000001\0"),
        (345, b"folder"),
        (500, b"x"),
        (2, b"\0hidden"),
    ],
    ids=lambda value: ascii(value),
)
def test_a_header_with_a_right_checksum_and_another_field_is_refused(at: int, field: bytes) -> None:
    header = render_header("model.onnx", 4)
    changed = checksummed(header[:at] + field + header[at + len(field) :])
    assert _parse_header(changed) is None


def tar_of(change: Callable[[tarfile.TarInfo], None], data: bytes = b"data", kind: int = tarfile.USTAR_FORMAT) -> bytes:
    """An archive by tarfile with one member, which `change` makes unusual."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        member = tarfile.TarInfo("bundle.json")
        member.size = len(data)
        change(member)
        tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


FOREIGN = {
    "tarfile's own": tar_of(lambda member: None),
    "gnu": tar_of(lambda member: None, kind=tarfile.GNU_FORMAT),
    "pax": tar_of(lambda member: member.pax_headers.update(comment="x"), kind=tarfile.PAX_FORMAT),
    "pax size": tar_of(lambda member: member.pax_headers.update(size="1024"), kind=tarfile.PAX_FORMAT),
    "pax path": tar_of(lambda member: member.pax_headers.update(path="../x"), kind=tarfile.PAX_FORMAT),
    "gnu long name": tar_of(lambda member: setattr(member, "name", "n" * 300), kind=tarfile.GNU_FORMAT),
    "gnu long link": tar_of(lambda member: setattr(member, "linkname", "n" * 300), kind=tarfile.GNU_FORMAT),
    "gnu sparse": tar_of(lambda member: setattr(member, "type", tarfile.GNUTYPE_SPARSE), kind=tarfile.GNU_FORMAT),
    "a hard link": tar_of(lambda member: (setattr(member, "type", tarfile.LNKTYPE), setattr(member, "linkname", "x"))),
    "a symbolic link": tar_of(
        lambda member: (setattr(member, "type", tarfile.SYMTYPE), setattr(member, "linkname", "x"))
    ),
    "a folder": tar_of(lambda member: setattr(member, "type", tarfile.DIRTYPE)),
    "a device": tar_of(lambda member: setattr(member, "type", tarfile.CHRTYPE)),
    "a fifo": tar_of(lambda member: setattr(member, "type", tarfile.FIFOTYPE)),
    "an owner": tar_of(lambda member: setattr(member, "uname", "root")),
    "a time": tar_of(lambda member: setattr(member, "mtime", 1)),
    "a mode": tar_of(lambda member: setattr(member, "mode", 0o755)),
    "a gzip stream": b"\x1f\x8b" + bytes(1000),
    "a zip": b"PK\3\4" + bytes(1000),
    "garbage": b"x" * 2048,
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_what_other_programs_write_is_refused(data: bytes) -> None:
    with pytest.raises(SealInvalid, match="the archive header at byte 0 is not in the one form"):
        SealReader(io.BytesIO(data)).signatures()


def test_the_place_of_a_bad_header_is_named() -> None:
    data = bytearray(ARCHIVE)
    at = data.index(b"full\0")
    data[at + 100] ^= 1
    with pytest.raises(SealInvalid, match=f"at byte {at} ") as caught:
        read(bytes(data))
    assert caught.value.data == {"at": at}


@pytest.mark.slow
def test_a_stream_that_ends_anywhere_is_truncated() -> None:
    small = archive(MEMBERS[:4])
    for end in range(len(small)):
        with pytest.raises(SealTruncated, match=r"the stream ends (after \d+ bytes|\d+ bytes before the end of)"):
            read(small[:end], MEMBERS[:4])
        with pytest.raises(SealTruncated):
            members(small[:end])
    assert read(small, MEMBERS[:4]) == dict(MEMBERS[:4])


def test_nothing_may_follow_the_end() -> None:
    for tail in (b"\0", b"x", bytes(BLOCK), bytes(9 * BLOCK), ARCHIVE):
        with pytest.raises(FileUnexpected, match=f"bytes follow the end of the archive at byte {len(ARCHIVE)}"):
            read(ARCHIVE + tail)


def test_one_zero_block_is_no_end() -> None:
    with pytest.raises(SealInvalid, match="a single zero block at byte"):
        read(archive(MEMBERS[:3])[: -2 * BLOCK] + bytes(BLOCK) + archive(MEMBERS[3:]))


def test_padding_is_zero() -> None:
    at = ARCHIVE.index(b"{}\0") + 2
    for offset in (at, at + BLOCK - 3):
        with pytest.raises(SealInvalid, match=r"the padding after 'bundle\.json' is not zero"):
            read(ARCHIVE[:offset] + b"x" + ARCHIVE[offset + 1 :])


@pytest.mark.parametrize(
    ("found", "error", "why"),
    [
        (MEMBERS[:-1], FileMissing, "is signed but not in the archive"),
        (MEMBERS[:2], FileMissing, r"'bundle\.json' is signed but not in the archive"),
        ([], FileMissing, r"'bundle\.json' is signed but not in the archive"),
        ([*MEMBERS, ("extra", b"")], FileUnexpected, "the archive has 'extra', which nobody signed"),
        ([*MEMBERS, MEMBERS[-1]], FileUnexpected, "which nobody signed"),
        ([*MEMBERS, MEMBERS[0]], FileUnexpected, r"the archive has 'signatures/00\.sig', which nobody signed"),
        (
            [*MEMBERS[:3], MEMBERS[2], *MEMBERS[3:]],
            FileUnexpected,
            r"has 'bundle\.json' where the signed file 'empty' must",
        ),
        ([*MEMBERS[:3], *MEMBERS[4:]], FileUnexpected, "has 'full' where the signed file 'empty' must come"),
        ([*MEMBERS[:3], MEMBERS[4], MEMBERS[3], *MEMBERS[5:]], FileUnexpected, "has 'full' where"),
        ([*MEMBERS[:2], *MEMBERS[3:]], FileUnexpected, r"has 'empty' where the signed file 'bundle\.json' must come"),
        ([MEMBERS[2], *MEMBERS[:2], *MEMBERS[3:]], FileUnexpected, r"has 'signatures/00\.sig' where"),
        (
            [MEMBERS[1], MEMBERS[0], *MEMBERS[2:]],
            FileUnexpected,
            r"'signatures/00\.sig' stands after 'signatures/11\.sig'",
        ),
        ([MEMBERS[0], *MEMBERS], FileUnexpected, r"'signatures/00\.sig' stands after 'signatures/00\.sig'"),
        (
            [*MEMBERS[:2], ("bundle.json", b"{ }"), *MEMBERS[3:]],
            SizeMismatch,
            r"'bundle\.json' has 3 bytes, 2 were signed",
        ),
        ([*MEMBERS[:2], ("", b"{}"), *MEMBERS[3:]], FileUnexpected, "has '' where"),
        ([*MEMBERS[:2], ("../bundle.json", b"{}"), *MEMBERS[3:]], FileUnexpected, r"has '\.\./bundle\.json' where"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_archive_holds_exactly_the_signed_members_in_order(
    found: list[tuple[str, bytes]], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        read(archive(found))


def test_signatures_are_limited_before_they_are_read() -> None:
    sixteen = [(f"signatures/{i:02}.sig", b"x") for i in range(16)]
    assert len(SealReader(io.BytesIO(archive(sixteen))).signatures()) == 16
    with pytest.raises(LimitExceeded, match="more than 16 signatures"):
        SealReader(io.BytesIO(archive([*sixteen, ("signatures/99.sig", b"")]))).signatures()
    announced = render_header("signatures/x.sig", (32 << 20) + 1)
    with pytest.raises(LimitExceeded, match="33554432 bytes"):  # not SealTruncated: nothing more was read
        SealReader(io.BytesIO(announced)).signatures()
    for size in (EIGHT_GIB, 2**60, 2**87):
        with pytest.raises(LimitExceeded):
            SealReader(io.BytesIO(render_header("signatures/x.sig", size))).signatures()


def test_a_huge_announced_size_allocates_nothing() -> None:
    reader = SealReader(io.BytesIO(render_header("model.onnx", 2**52) + b"few bytes"))
    huge = Resource("model.onnx", Digest.of(b""), 2**52, "x/y")
    with pytest.raises(SealTruncated, match="the stream ends 4503599627370487 bytes before the end of"):
        list(reader.read(huge))


def test_the_writer_holds_callers_to_the_announced_size() -> None:
    for parts in ([b"123"], [b"123", b"45"]):
        with pytest.raises(SizeMismatch, match=r"'x' has \d bytes, 4 were announced"):
            SealWriter(io.BytesIO()).add("x", 4, map(memoryview, parts))
    with pytest.raises(SealInvalid, match="does not fit a ustar header"):
        SealWriter(io.BytesIO()).add("n" * 101, 0, ())
