import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandseal_signing.digest import Digest
from sandseal_signing.envelope import Envelope
from sandseal_signing.errors import (
    DigestMismatch,
    EnvelopeInvalid,
    FileMissing,
    FileUnexpected,
    JsonInvalid,
    LimitExceeded,
    ManifestInvalid,
    NameInvalid,
    SealInvalid,
    SigningError,
    SizeMismatch,
)
from sandseal_signing.manifest import render_manifest
from sandseal_signing.pack import list_folder, pack_folder, read_seal, sign_seal
from support.bundles import FILES, archive, manifest, members, seal
from support.keys import ed25519_key, p256_key

ALICE, BOB = ed25519_key("alice"), ed25519_key("bob")
MANIFEST = render_manifest(manifest())
ALL = {**FILES, "bundle.json": MANIFEST, "assets/labels.txt": b"a\nb\n", "assets/deep/empty": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "bundle", ALL)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def packed(folder: Path, *keys: object) -> bytes:
    out = io.BytesIO()
    pack_folder(folder, out, keys)  # type: ignore[arg-type]
    return out.getvalue()


def test_packing_takes_every_file(folder: Path) -> None:
    out = io.BytesIO()
    contents = pack_folder(folder, out, [ALICE])
    names = [name for name, _ in members(out.getvalue())]
    assert names == [
        f"signatures/{ALICE.public.hint[:16]}.sig",
        "bundle.json",
        "README.md",
        "assets/deep/empty",
        "assets/labels.txt",
        "model.onnx",
    ]
    assert dict(members(out.getvalue())[1:]) == ALL
    assert contents.manifest.name == contents.statement.subject == "acme.tiny"
    assert contents.id == Digest.of(contents.payload)
    assert read_seal(io.BytesIO(out.getvalue())) == contents


def test_git_files_and_signatures_at_the_top_are_left_out(folder: Path) -> None:
    before = list_folder(folder)
    write(
        folder,
        {".git/HEAD": b"", ".gitignore": b"", ".github/x.yml": b"", "signatures/x.sig": b"", "assets/.git/x": b""},
    )
    assert list_folder(folder) == sorted([*before, "assets/.git/x"])


def test_the_same_files_give_the_same_bytes_everywhere(folder: Path, tmp_path: Path) -> None:
    expected = packed(folder, ALICE)
    other = write(tmp_path / "elsewhere" / "other", dict(reversed(ALL.items())))
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert packed(other, ALICE) == expected
    script = (
        "import io, os, sys; from pathlib import Path; os.umask(0o077)\n"
        "from sandseal_signing import PrivateKey, pack_folder\n"
        "out = io.BytesIO(); pack_folder(Path(sys.argv[1]), out, [PrivateKey.parse(sys.stdin.buffer.read())])\n"
        "sys.stdout.buffer.write(out.getvalue())"
    )
    for environment in ({"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1"}, {"LC_ALL": "C"}):
        made = subprocess.run(
            [sys.executable, "-c", script, str(other)],
            input=ALICE.pem(),
            capture_output=True,
            check=True,
            env=os.environ | environment,
        )
        assert made.stdout == expected


def test_the_order_in_which_the_system_lists_files_does_not_matter(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, walk = packed(folder), os.walk

    def backwards(top: Path, onerror: object = None) -> object:
        for parent, folders, files in walk(top):
            folders.sort(reverse=True)
            yield parent, folders, sorted(files, reverse=True)

    monkeypatch.setattr(os, "walk", backwards)
    assert packed(folder) == expected


def test_hashing_in_several_threads_gives_the_same_bytes(folder: Path) -> None:
    out = io.BytesIO()
    pack_folder(folder, out, [ALICE], threads=4)
    assert out.getvalue() == packed(folder, ALICE)


def test_progress_counts_every_byte_twice(folder: Path) -> None:
    total = sum(map(len, ALL.values()))
    steps: list[int] = []
    out = io.BytesIO()
    pack_folder(folder, out, [ALICE], steps.append)
    assert sum(steps) == 2 * total
    steps.clear()
    sign_seal(io.BytesIO(out.getvalue()), io.BytesIO(), [BOB], steps.append)
    assert sum(steps) == 2 * total
    steps.clear()
    read_seal(io.BytesIO(out.getvalue()), steps.append)
    assert sum(steps) == total


def symlink(folder: Path) -> None:
    (folder / "link").symlink_to("model.onnx")


def folder_link(folder: Path) -> None:
    (folder / "linked").symlink_to("assets", target_is_directory=True)


def dangling(folder: Path) -> None:
    (folder / "assets" / "dangling").symlink_to("nowhere")


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


@pytest.mark.parametrize("make", [symlink, folder_link, dangling, fifo])
def test_links_and_special_files_are_refused(folder: Path, make: object) -> None:
    make(folder)  # type: ignore[operator]
    with pytest.raises(FileUnexpected, match="is a link or a special file; a bundle holds plain files only"):
        packed(folder)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_not_left_out_silently(folder: Path) -> None:
    (folder / "assets").chmod(0)
    try:
        with pytest.raises(PermissionError):
            list_folder(folder)
    finally:
        (folder / "assets").chmod(0o700)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("files", "error", "why"),
    [
        ({"bundle.json": None}, FileMissing, r"has no bundle\.json"),
        ({"model.onnx": None}, FileMissing, r"bundle\.json names files that the bundle does not hold: model\.onnx"),
        ({"a b": b""}, NameInvalid, "'a b' has a part"),
        ({"MODEL.onnx": b""}, NameInvalid, "are the same path on some systems"),
        ({"model.sig": b""}, NameInvalid, "leaves out of what it signs"),
        ({"bundle.json": b"{"}, JsonInvalid, r"bundle\.json: not strict JSON"),
        ({"bundle.json": b"{}"}, ManifestInvalid, "schema: is missing"),
        ({"bundle.json": MANIFEST + b" " * 262144}, LimitExceeded, r"bundle\.json has"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_what_must_change_before_a_folder_can_be_packed(
    folder: Path, files: dict[str, bytes | None], error: type[SigningError], why: str
) -> None:
    for name, data in files.items():
        (folder / name).unlink() if data is None else (folder / name).write_bytes(data)
    with pytest.raises(error, match=why):
        packed(folder)


@pytest.mark.parametrize(
    ("after", "error"), [(b"x" * 1600, DigestMismatch), (b"x", SizeMismatch), (b"y" * 3000, DigestMismatch)]
)
def test_a_file_that_changes_while_it_is_packed_is_noticed(
    folder: Path, after: bytes, error: type[SigningError]
) -> None:
    hashed = 0

    def change_after_hashing(count: int) -> None:
        nonlocal hashed
        hashed += count
        if hashed == sum(map(len, ALL.values())):
            (folder / "model.onnx").write_bytes(after)

    assert len(ALL["model.onnx"]) == 1600
    with pytest.raises(error, match=r"'model\.onnx' has"):
        pack_folder(folder, io.BytesIO(), [ALICE], change_after_hashing)


def test_signing_later_gives_the_same_archive_as_signing_at_once(folder: Path) -> None:
    out = io.BytesIO()
    contents = sign_seal(io.BytesIO(packed(folder)), out, [BOB, ALICE])
    assert out.getvalue() == packed(folder, ALICE, BOB)
    assert len(contents.signatures) == 2


def test_earlier_signatures_and_the_bundle_id_stay(folder: Path) -> None:
    once, twice = io.BytesIO(packed(folder, p256_key("alice"))), io.BytesIO()
    before = read_seal(once)
    once.seek(0)
    after = sign_seal(once, twice, [ALICE])
    assert after.id == before.id
    assert before.signatures.items() <= after.signatures.items()
    for name, data in read_seal(io.BytesIO(twice.getvalue())).signatures.items():
        envelope = Envelope.parse(data, name)
        assert any(envelope.verifies(key.public) for key in (ALICE, p256_key("alice")))


def test_signing_twice_with_one_key_changes_nothing(folder: Path) -> None:
    signed, again = packed(folder, ALICE), io.BytesIO()
    sign_seal(io.BytesIO(signed), again, [ALICE])
    assert again.getvalue() == signed


def test_a_foreign_statement_over_the_same_files_is_what_gets_signed(folder: Path) -> None:
    contents = read_seal(io.BytesIO(packed(folder)))
    spaced = b" " + contents.payload
    envelope = Envelope.sign(spaced, BOB)
    foreign = archive([(envelope.file_name, envelope.render()), *members(packed(folder))])
    out = io.BytesIO()
    assert sign_seal(io.BytesIO(foreign), out, [ALICE]).payload == spaced
    assert {Envelope.parse(d, n).payload for n, d in read_seal(io.BytesIO(out.getvalue())).signatures.items()} == {
        spaced
    }


def test_more_than_sixteen_signatures_are_refused(folder: Path) -> None:
    with pytest.raises(LimitExceeded, match="more than 16 signatures"):
        packed(folder, *(ed25519_key(f"key {i}") for i in range(17)))


def others(**changes: bytes | None) -> bytes:
    """A signed archive in which files were replaced, removed or added afterwards."""
    found = dict(members(seal([ALICE])))
    found |= {name.replace("__", "."): data for name, data in changes.items() if data is not None}
    for name in (name.replace("__", ".") for name, data in changes.items() if data is None):
        del found[name]
    return archive(found.items())


UNREADABLE = {
    "no archive": (lambda: b"x" * 2048, SealInvalid, "the archive header at byte 0"),
    "no manifest": (lambda: archive([("model.onnx", b"x")]), FileMissing, r"the archive has no bundle\.json"),
    "nothing": (lambda: archive([]), FileMissing, r"the archive has no bundle\.json"),
    "an empty manifest": (lambda: archive([("bundle.json", b"")]), FileMissing, "or an empty one"),
    "an overlong manifest": (lambda: archive([("bundle.json", bytes(262145))]), LimitExceeded, "over 262144"),
    "a bad name": (lambda: archive([("bundle.json", MANIFEST), ("../x", b"")]), NameInvalid, r"'\.\./x'"),
    "a file twice": (
        lambda: archive([("bundle.json", MANIFEST), ("model.onnx", b""), ("model.onnx", b"")]),
        NameInvalid,
        "stands twice",
    ),
    "another order": (
        lambda: archive([("bundle.json", MANIFEST), ("model.onnx", b""), ("a", b"")]),
        SealInvalid,
        "members are out of order",
    ),
    "the manifest last": (
        lambda: archive([("model.onnx", b""), ("bundle.json", MANIFEST)]),
        SealInvalid,
        "members are out of order",
    ),
    "no model": (lambda: archive([("bundle.json", MANIFEST)]), FileMissing, r"does not hold: model\.onnx"),
    "a misnamed signature": (
        lambda: archive([("signatures/00.sig", members(seal([ALICE]))[0][1]), *members(seal())]),
        EnvelopeInvalid,
        "must be called",
    ),
    "a file added": (lambda: others(z=b""), FileUnexpected, "in the archive but not signed: z"),
    "a file removed": (lambda: others(README__md=None), FileMissing, r"signed but not in the archive: README\.md"),
    "a file longer": (
        lambda: others(README__md=b"# longer model\n"),
        SizeMismatch,
        r"'README\.md' has 15 bytes, 10 were",
    ),
    "a file changed": (lambda: others(README__md=b"# B model\n"), DigestMismatch, r"'README\.md' has SHA-256"),
    "a manifest changed": (
        lambda: others(bundle__json=MANIFEST.replace(b'"version": 1', b'"version": 2')),
        DigestMismatch,
        r"'bundle\.json' has SHA-256",
    ),
}


@pytest.mark.parametrize(("make", "error", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_can_be_neither_shown_nor_signed(make: object, error: type[SigningError], why: str) -> None:
    data = make()  # type: ignore[operator]
    with pytest.raises(error, match=why):
        read_seal(io.BytesIO(data))
    with pytest.raises(error, match=why):
        sign_seal(io.BytesIO(data), io.BytesIO(), [BOB])
