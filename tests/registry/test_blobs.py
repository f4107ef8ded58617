"""Blobs: whole, on disk and read-only, or not there at all."""

import os
import resource as limits
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from sandseal_host.errors import StoreError
from sandseal_host.registry.blobs import BlobStatistics, BlobStore
from sandseal_signing.digest import Digest
from sandseal_signing.errors import DigestMismatch, FileMissing
from sandseal_signing.statement import Resource

CONTENT = b"content " * 1000


def resource(content: bytes = CONTENT) -> Resource:
    return Resource("model.onnx", Digest.of(content), len(content), "application/vnd.onnx")


def chunks(content: bytes = CONTENT) -> Iterator[memoryview]:
    for at in range(0, len(content), 1024):
        yield memoryview(content)[at : at + 1024]


def nothing_used(digests: Collection[Digest]) -> Collection[Digest]:
    return digests


def all_used(_: Collection[Digest]) -> Collection[Digest]:
    return ()


def deposit(store: BlobStore, content: bytes = CONTENT) -> None:
    with store.deposit(all_used) as sink:
        sink.write(resource(content), chunks(content))


def files(root: Path) -> set[str]:
    return {name for _, _, names in os.walk(root) for name in names} - {"lock", "catalog"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BlobStore]:
    with BlobStore(tmp_path / "blobs") as store:
        yield store


def test_a_blob_reads_back_what_was_written(store):
    deposit(store)
    with store.open(resource().digest) as file:
        assert file.read() == CONTENT
    assert store.statistics() == BlobStatistics(1, len(CONTENT))


def test_a_blob_is_not_there_until_its_chunks_have_ended(store, tmp_path):
    def watched() -> Iterator[memoryview]:
        yield from chunks()
        assert len(files(tmp_path)) == 1
        assert not store.has(resource().digest)

    with store.deposit(all_used) as sink:
        sink.write(resource(), watched())
    assert store.has(resource().digest)


def test_chunks_that_end_in_an_error_leave_nothing(store, tmp_path):
    def wrong() -> Iterator[memoryview]:
        yield from chunks()
        raise DigestMismatch("other bytes")

    with pytest.raises(DigestMismatch), store.deposit(all_used) as sink:
        sink.write(resource(), wrong())
    assert files(tmp_path) == set()


def test_a_blob_that_is_there_is_not_written_again_but_its_chunks_are_read(store):
    deposit(store)
    path = store._path(resource().digest)
    before, left = path.stat(), chunks()
    with store.deposit(all_used) as sink:
        sink.write(resource(), left)
    assert path.stat() == before
    assert list(left) == []


def test_what_nobody_uses_in_the_end_goes(store, tmp_path):
    with store.deposit(nothing_used) as sink:
        sink.write(resource(), chunks())
        store.sweep(nothing_used)
        assert store.has(resource().digest)  # in an upload's hands
    assert files(tmp_path) == set()


def test_a_blob_in_two_uploads_hands_outlives_the_first_of_them(store):
    with store.deposit(nothing_used) as one:
        one.write(resource(), chunks())
        with store.deposit(nothing_used) as two:
            two.write(resource(), chunks())
        assert store.has(resource().digest)
    assert not store.has(resource().digest)


def test_an_upload_cannot_find_a_blob_there_while_it_is_being_swept(store):
    deposit(store)
    asked, answered = threading.Event(), threading.Event()

    def slowly(digests: Collection[Digest]) -> Collection[Digest]:
        asked.set()
        assert not answered.wait(0.05)  # the upload waits for the guard
        return digests

    def upload() -> None:
        assert asked.wait(60)
        deposit(store)
        answered.set()

    uploader = threading.Thread(target=upload)
    uploader.start()
    store.sweep(slowly)
    uploader.join(60)
    assert store.has(resource().digest)


def test_a_start_empties_incoming_and_keeps_the_blobs(tmp_path):
    with BlobStore(tmp_path) as store:
        deposit(store)
    (tmp_path / "incoming" / "half").write_bytes(b"half a model")
    with BlobStore(tmp_path) as store:
        assert files(tmp_path) == {resource().digest.hex}
        store.sweep(all_used)
        assert store.has(resource().digest)


def test_files_that_are_not_blobs_are_left_alone(store, tmp_path):
    stranger = tmp_path / "blobs" / "sha256" / "00" / "notes.txt"
    stranger.write_text("by the operator")
    store.sweep(nothing_used)
    assert stranger.exists()
    assert store.statistics().blobs == 0


def test_a_store_has_one_user_at_a_time(store, tmp_path):
    with pytest.raises(StoreError, match="another process"):
        BlobStore(tmp_path / "blobs")
    store.close()
    BlobStore(tmp_path / "blobs").close()


def test_a_store_belongs_to_one_catalog(store):
    store.claim("one")
    store.claim("one")
    with pytest.raises(StoreError, match="belongs to catalog one") as refused:
        store.claim("two")
    assert refused.value.hint


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: store.open(resource().digest),
        lambda: store.deposit(all_used),
        lambda: store.sweep(all_used),
        lambda: store.claim("one"),
        store.statistics,
    ]
    for call in calls:
        with pytest.raises(StoreError, match="is closed"):
            call()


def test_a_missing_blob_is_named(store):
    with pytest.raises(FileMissing, match=resource().digest.hex):
        store.open(resource().digest)


def test_a_link_in_the_store_is_not_followed(store, tmp_path):
    (tmp_path / "elsewhere").write_bytes(CONTENT)
    store._path(resource().digest).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        store.open(resource().digest)


def test_a_folder_that_cannot_be_used_is_the_operators_to_mend(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open the blob store"):
        BlobStore(tmp_path / "file" / "blobs")


def test_a_disk_that_stops_taking_bytes_refuses_and_leaves_nothing(store, tmp_path):
    before, handler = limits.getrlimit(limits.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits.setrlimit(limits.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(StoreError, match=r"cannot write 'model\.onnx'"):
            deposit(store)
    finally:
        limits.setrlimit(limits.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert files(tmp_path) == set()


def test_the_disks_reserve_is_given_to_no_blob(tmp_path):
    with BlobStore(tmp_path / "reserved", reserve=1 << 60) as store, pytest.raises(StoreError, match="0 to give"):
        deposit(store)
