"""Archives that nobody would pack: what tar programs disagree on, and what ends too early or too late."""

import gzip
import io
import zipfile
from collections.abc import Iterator

from sandseal_signing.seal import BLOCK, render_header
from support.bundles import archive
from support.keys import ed25519_key
from vectors.hostile.case import ALICE, BOB, Case, Members, bundle, seal_case

HONEST = archive(bundle())
MODEL = HONEST.index(b"model.onnx\0" + bytes(80))
"""Where the last member's header begins."""


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for name, (stands_for, at, field) in _FIELDS.items():
        yield f"archive-{name}", seal_case(stands_for, _with_field(at, field))
    for name, (stands_for, data) in _WHOLE.items():
        yield f"archive-{name}", seal_case(stands_for, data)
    for name, (stands_for, members) in _MEMBERS.items():
        yield f"archive-{name}", seal_case(stands_for, archive(members))
    ends = sorted({*range(0, len(HONEST), BLOCK), *range(BLOCK // 2, len(HONEST), BLOCK), len(HONEST) - 1})
    for end in ends:
        yield f"archive-ends-at-{end:05}", seal_case("truncation at every boundary and between", HONEST[:end])


def _with_field(at: int, field: bytes) -> bytes:
    """The honest archive with one field of the model's header replaced, its checksum made right again."""
    header = bytearray(HONEST[MODEL : MODEL + BLOCK])
    header[at : at + len(field)] = field
    if at != 148:
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
    return HONEST[:MODEL] + bytes(header) + HONEST[MODEL + BLOCK :]


def _before_model(name: str, kind: bytes, data: bytes) -> bytes:
    """The honest archive with an extension's member in front of the model."""
    header = bytearray(render_header(name, len(data)))
    header[148:157] = b" " * 8 + kind
    header[148:156] = b"%06o\0 " % sum(header)
    return HONEST[:MODEL] + bytes(header) + data.ljust(-(-len(data) // BLOCK) * BLOCK, b"\0") + HONEST[MODEL:]


def _zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in bundle():
            file.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def _renamed(name: str) -> Members:
    return [(name if old == "model.onnx" else old, data) for old, data in bundle()]


_END = bytes(2 * BLOCK)
_TWO = bundle(ALICE, BOB)
_FIELDS = {
    "symlink": ("CVE-2007-4559", 156, b"2" + b"/etc/passwd"),
    "hard-link": ("CVE-2026-34446: a hard link reads another file", 156, b"1" + b"bundle.json"),
    "character-device": ("special files", 156, b"3"),
    "folder": ("a member that is no file", 156, b"5"),
    "pipe": ("special files", 156, b"6"),
    "contiguous": ("a type that some programs take for a file", 156, b"7"),
    "old-type": ("a type that some programs take for a file", 156, b"\0"),
    "gnu-sparse": ("a type whose size is not its content's", 156, b"S"),
    "link-name": ("CVE-2025-4517: a name for a link on a plain file", 157, b"../../x"),
    "mode": ("modes are not signed", 100, b"0000755\0"),
    "set-user-id": ("modes are not signed", 100, b"0004755\0"),
    "owner": ("owners are not signed", 108, b"0001750\0"),
    "owner-name": ("owners are not signed", 265, b"root"),
    "time": ("times are not signed", 136, b"14000000000\0"),
    "gnu-magic": ("another dialect", 257, b"ustar  \0"),
    "v7-magic": ("another dialect", 257, bytes(8)),
    "checksum": ("a header that is damaged", 148, b"000000\0 "),
    "size-with-spaces": ("numbers with two readings", 124, b"       3100\0"),
    "size-without-end": ("numbers with two readings", 124, b"000000003100"),
    "size-base-256": ("numbers with two spellings", 124, b"\x80" + (1600).to_bytes(11, "big")),
    "size-negative": ("CVE-2025-8194: a negative size", 124, b"\xff" * 12),
    "size-beyond-all": ("a size that must not be believed", 124, b"\x80" + (1 << 80).to_bytes(11, "big")),
    "size-larger": ("CVE-2025-62518: another size than signed", 124, b"00000003101\0"),
    "size-smaller": ("CVE-2025-62518: another size than signed", 124, b"00000003077\0"),
    "name-above": ("zip slip", 0, b"../model.onnx"),
    "name-absolute": ("zip slip", 0, b"/model.onnx"),
    "name-backslash": ("zip slip on Windows", 0, b"..\\model.onnx"),
    "name-with-more-behind-nul": ("NUL truncates names", 11, b"evil"),
    "name-not-ascii": ("names with two readings", 0, "mödel.onnx".encode()),
    "prefix-not-needed": ("a name with two spellings", 345, b"assets"),
}
_WHOLE = {
    "nothing": ("an empty upload", b""),
    "noise": ("not an archive", b"x" * 4096),
    "compressed": ("a bomb's wrapping", gzip.compress(HONEST, mtime=0)),
    "zip": ("CVE-2025-54368: two directories in one archive", _zipped()),
    "pax": ("CVE-2025-62518: a size in a pax header", _before_model("x", b"x", b"13 size=1601\n")),
    "pax-global": ("CVE-2026-33055: a global pax header", _before_model("g", b"g", b"13 path=evil\n")),
    "gnu-long-name": ("a name that is said elsewhere", _before_model("././@LongLink", b"L", b"evil\0")),
    "no-end": ("an end that is missing", HONEST[: -2 * BLOCK]),
    "half-an-end": ("an end that some programs take", HONEST[: -2 * BLOCK] + bytes(BLOCK) + b"x" * BLOCK),
    "end-in-the-middle": ("members behind the end", HONEST[:MODEL] + _END + HONEST[MODEL:]),
    "another-behind": ("two archives in one", HONEST + HONEST),
    "a-zero-behind": ("bytes behind the end", HONEST + b"\0"),
    "blocks-behind": ("padding to a record of 10,240 bytes", HONEST + bytes(8 * BLOCK)),
    "padding": ("bytes that nobody hashes", HONEST[: -2 * BLOCK - 1] + b"x" + _END),
    "signature-of-33-mib": ("memory by announcement", render_header("signatures/" + "0" * 16 + ".sig", 33 << 20)),
}
_MEMBERS: dict[str, tuple[str, Members]] = {
    "member-twice": ("getmember reads the last, iteration the first", [*bundle(), bundle()[-1]]),
    "manifest-twice": ("getmember reads the last, iteration the first", [*bundle()[:2], *bundle()[1:]]),
    "member-missing": ("a file that is left out", bundle()[:-1]),
    "member-unsigned": ("a file that is added", [*bundle(), ("zzz.bin", b"x")]),
    "member-renamed": ("OMS root digests cover no names", _renamed("other.onnx")),
    "member-in-another-case": ("case folding", _renamed("MODEL.onnx")),
    "members-exchanged": ("order of members", [*bundle()[:2], *bundle()[:1:-1]]),
    "manifest-last": ("order of members", [bundle()[0], *bundle()[2:], bundle()[1]]),
    "signature-last": ("order of members", [*bundle()[1:], bundle()[0]]),
    "signatures-exchanged": ("order of signatures", [_TWO[1], _TWO[0], *_TWO[2:]]),
    "signature-twice": ("one signature counted twice", [_TWO[0], *_TWO[:1], *_TWO[2:]]),
    "signatures-17": ("more signatures than anybody needs", bundle(*(ed25519_key(f"key {i}") for i in range(17)))),
    "contents-exchanged": (
        "OMS root digests cover no names",
        [(n, {"README.md": bundle()[-1][1], "model.onnx": bundle()[-2][1]}.get(n, d)) for n, d in bundle()],
    ),
}
