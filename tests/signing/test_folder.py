import io
from pathlib import Path

import pytest

from sandseal_signing.bundle import Bundle, Discard, InMemory, open_bundle
from sandseal_signing.errors import DigestMismatch, FileMissing, FileUnexpected, SigningError
from sandseal_signing.folder import FolderSource, list_files, open_plain
from sandseal_signing.seal import SealReader
from sandseal_signing.unpack import new_folder, unpack_seal
from sandseal_signing.verdict import Moment
from support.bundles import FILES, archive, members, seal, trust
from support.keys import ed25519_key

ALICE = ed25519_key("alice")
POLICY = trust({"alice": ALICE})
MANY = {**FILES, **{f"weights/{i}.bin": bytes([i]) * (1000 * i) for i in range(20)}}
ARCHIVE = seal([ALICE], files=MANY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    unpack_seal(io.BytesIO(ARCHIVE), tmp_path / "bundle")
    return tmp_path / "bundle"


def opened(folder: Path, threads: int = 1) -> Bundle:
    return open_bundle(FolderSource(folder), POLICY, lambda _: Moment.current(), InMemory(), threads=threads)


def test_unpacking_writes_exactly_the_archive_s_members(folder: Path) -> None:
    assert {name: (folder / name).read_bytes() for name in list_files(folder, lambda _: False)} == dict(
        members(ARCHIVE)
    )
    assert all((folder / name).stat().st_mode & 0o777 == 0o644 for name, _ in members(ARCHIVE))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_folder_is_the_same_bundle_as_its_archive(folder: Path, threads: int) -> None:
    ours = opened(folder, threads)
    theirs = open_bundle(SealReader(io.BytesIO(ARCHIVE)), POLICY, lambda _: Moment.current(), InMemory())
    assert ours == theirs
    assert list(ours.files) == list(theirs.files)


def test_of_several_bad_files_the_first_in_order_is_named(folder: Path) -> None:
    for name in ("weights/3.bin", "weights/7.bin", "weights/12.bin"):
        path = folder / name
        path.write_bytes(b"x" * path.stat().st_size)
    for threads in (1, 4):
        with pytest.raises(DigestMismatch, match=r"'weights/12\.bin'"):
            opened(folder, threads)


def test_unpacking_never_touches_what_is_there(tmp_path: Path) -> None:
    for make in (Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")):
        target = tmp_path / f"there-{len(list(tmp_path.iterdir()))}"
        make(target)
        with pytest.raises(FileExistsError):
            unpack_seal(io.BytesIO(ARCHIVE), target)
        assert target.is_symlink() or not list(target.rglob("*"))


def test_nothing_is_written_of_an_archive_that_does_not_fit_its_statement(tmp_path: Path) -> None:
    changed = ARCHIVE.replace(b"not parsed", b"not parseD")
    with pytest.raises(DigestMismatch):
        unpack_seal(io.BytesIO(changed), tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_an_archive_that_changes_between_its_readings_leaves_nothing(tmp_path: Path) -> None:
    class Changing(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            self.getbuffer()[-1025] = 1  # padding of the last member
            return super().seek(offset, whence)

    with pytest.raises(SigningError):
        unpack_seal(Changing(ARCHIVE), tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_unsigned_archives_can_be_unpacked(tmp_path: Path) -> None:
    unpack_seal(io.BytesIO(seal()), tmp_path / "bundle")
    assert "signatures" not in {path.name for path in (tmp_path / "bundle").iterdir()}


def test_names_out_of_the_folder_never_reach_the_disk(tmp_path: Path) -> None:
    hostile = archive([*members(seal()), ("zz/../../../evil", b"x")])
    with pytest.raises(SigningError):
        unpack_seal(io.BytesIO(hostile), tmp_path / "a" / "b")
    assert not list(tmp_path.rglob("evil"))


def test_a_new_folder_goes_when_its_block_raises(tmp_path: Path) -> None:
    def fill_and_fail() -> None:
        with new_folder(tmp_path / "new"):
            (tmp_path / "new" / "x").touch()
            raise KeyError

    with pytest.raises(KeyError):
        fill_and_fail()
    assert not (tmp_path / "new").exists()


def test_plain_files_only(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(__file__)
    for name, error in (("link", FileUnexpected), (".", FileUnexpected), ("x", FileMissing), ("link/x", FileMissing)):
        with pytest.raises(error):
            open_plain(tmp_path / name)


def test_no_descriptor_is_left_open(folder: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for _ in range(5):
        open_bundle(FolderSource(folder), POLICY, lambda _: Moment.current(), Discard(), threads=2)
        with pytest.raises(FileUnexpected):
            open_plain(folder)
    after = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    assert after == before
