"""The scrub: finds the flipped byte, leaves what is sound alone, and remembers when it looked."""

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandseal_host.registry.scrub import Scrub
from sandseal_signing.digest import Digest
from support.bundles import FILES, seal
from support.waiting import wait_until

MODEL = Digest.of(FILES["model.onnx"])


@contextmanager
def scrubbing(data, found: Callable[[Digest], None] = lambda _: None, rate: float = 1e9, **options) -> Iterator[Scrub]:
    scrub = Scrub(data.store, data.folder / "scrub.json", rate, found, **{"rest_s": 0.02, **options})
    scrub.start()
    try:
        yield scrub
    finally:
        scrub.close()


def push(data, alice) -> None:
    data.registry.accept(io.BytesIO(seal([alice])), lambda _: None)


def flip(data, digest: Digest = MODEL) -> None:
    path = data.store._path(digest)
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    written = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(written, written))  # as a disk would


def test_a_flipped_byte_is_found_and_a_second_push_repairs_it(data, alice):
    push(data, alice)
    found: list[Digest] = []
    with scrubbing(data, found.append) as scrub:
        wait_until(lambda: scrub.statistics().checked_total >= 3)
        assert not found
        flip(data)
        wait_until(lambda: found)
        assert set(found) == {MODEL}
        wait_until(lambda: scrub.statistics().damaged == 1)
        assert scrub.checks()[MODEL].damaged
        push(data, alice)
        wait_until(lambda: scrub.statistics().damaged == 0)
        assert scrub.statistics().failures_total >= 1


def test_ages_begin_with_the_writing_and_outlive_a_restart(data, alice):
    push(data, alice)
    scrub = Scrub(data.store, data.folder / "scrub.json", 0, lambda _: None, rest_s=1)
    scrub.start()  # which does nothing at this rate
    scrub.close()
    before = scrub.statistics()
    assert (before.blobs, before.checked_total) == (3, 0)
    assert 0 <= before.oldest_age_s < 60
    with scrubbing(data) as scrub:
        wait_until(lambda: scrub.statistics().checked_total >= 3)
    again = Scrub(data.store, data.folder / "scrub.json", 0, lambda _: None, rest_s=1)
    assert again.statistics().oldest_age_s < before.oldest_age_s + 60
    assert again._checked.keys() == data.store.written().keys()


def test_it_keeps_to_its_rate_and_ends_within_a_chunk(data, alice):
    push(data, alice)
    found: list[Digest] = []
    with scrubbing(data, found.append, rate=0.01) as scrub:  # bytes a second: this would take hours
        time.sleep(0.2)
        assert scrub.statistics().checked_total == 0
    assert not found


def test_what_is_deleted_or_unreadable(data, alice):
    push(data, alice)
    scrub = Scrub(data.store, data.folder / "scrub.json", 1e9, lambda _: None, rest_s=1)
    assert scrub.check(Digest.of(b"never here"))
    assert scrub.check(MODEL)
    data.store._path(MODEL).unlink()
    data.store._path(MODEL).mkdir()
    assert not scrub.check(MODEL)
    data.store._path(MODEL).rmdir()


def test_a_memory_that_cannot_be_read_is_as_none(data):
    (data.folder / "scrub.json").write_text('{"zz": 1}')
    assert Scrub(data.store, data.folder / "scrub.json", 0, lambda _: None, rest_s=1).statistics().blobs == 0
