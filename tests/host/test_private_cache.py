"""Entries that this host wrote come back; whatever else lies there is deleted, logged and never given out."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sandseal_host.errors import StoreError
from sandseal_host.private_cache import PrivateCache

A, B, C = (letter * 64 for letter in "abc")
MIB = 1 << 20


def opened(root: Path, max_size: int = MIB, secret: str = "code.key") -> PrivateCache:
    return PrivateCache(root / "code", root / "keys" / secret, max_size, "compiled plugins")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    opened(tmp_path).put(A, b"code")
    cache = opened(tmp_path)
    assert cache.get(A) == b"code"
    assert cache.get(B) is None
    statistics = cache.statistics()
    assert (statistics.hits_total, statistics.misses_total, statistics.rejected_total) == (1, 1, 0)
    assert statistics.size_bytes == 32 + 4


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    opened(tmp_path).put(A, b"code")
    assert mode(tmp_path / "code") == mode(tmp_path / "keys") == 0o700
    assert mode(tmp_path / "code" / A) == mode(tmp_path / "keys" / "code.key") == 0o600


def flip(at: int) -> Callable[[Path], None]:
    def change(entry: Path) -> None:
        content = bytearray(entry.read_bytes())
        content[at] ^= 1
        entry.write_bytes(content)

    return change


def cut(size: int) -> Callable[[Path], None]:
    return lambda entry: os.truncate(entry, size)


def link_elsewhere(entry: Path) -> None:
    entry.rename(entry.with_name(B))
    entry.symlink_to(entry.with_name(B))


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a bit of the code": flip(40),
    "a bit of the MAC": flip(0),
    "cut in the code": cut(100),
    "cut in the MAC": cut(20),
    "empty": cut(0),
    "longer": lambda entry: entry.write_bytes(entry.read_bytes() + b"\0"),
    "without a MAC": lambda entry: entry.write_bytes(bytes(range(200))),
    "of another key": lambda entry: shutil.copy2(entry.with_name(C), entry),
    "a link": link_elsewhere,
    "a pipe": lambda entry: (entry.unlink(), os.mkfifo(entry, 0o600)),
    "others may read it": lambda entry: entry.chmod(0o644),
    "over the bound": lambda entry: os.truncate(entry, MIB + 1),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_entry(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = opened(tmp_path)
    cache.put(A, bytes(range(200)))
    cache.put(C, b"code of another module")
    FOREIGN[name](tmp_path / "code" / A)
    assert cache.get(A) is None
    assert not os.path.lexists(tmp_path / "code" / A)
    assert "not what this host wrote there" in caplog.text
    assert cache.statistics().rejected_total == 1
    cache.put(A, b"compiled again")
    assert cache.get(A) == b"compiled again"


def test_an_entry_of_another_host(tmp_path: Path) -> None:
    opened(tmp_path, secret="theirs.key").put(A, b"code")
    cache = opened(tmp_path)
    assert cache.get(A) is None
    assert cache.statistics().rejected_total == 1


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = opened(tmp_path, max_size=1000)
    for age, key in enumerate((A, B)):
        cache.put(key, bytes(400))
        os.utime(tmp_path / "code" / key, (age, age))
    assert cache.get(A)  # which was the older one until now
    cache.put(C, bytes(400))
    assert [cache.get(key) is not None for key in (A, B, C)] == [True, False, True]
    assert cache.statistics().size_bytes <= 1000


def test_what_is_larger_than_the_bound_is_not_kept(tmp_path: Path) -> None:
    cache = opened(tmp_path, max_size=100)
    cache.put(A, bytes(60))
    cache.put(B, bytes(100))
    assert cache.get(A)
    assert cache.get(B) is None


def test_what_was_not_finished_is_deleted(tmp_path: Path) -> None:
    opened(tmp_path).put(A, b"code")
    (tmp_path / "code" / f".{B}").write_bytes(b"half")
    opened(tmp_path)
    assert [entry.name for entry in (tmp_path / "code").iterdir()] == [A]


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    cache, elsewhere = opened(tmp_path), tmp_path / "elsewhere"
    elsewhere.write_bytes(b"theirs")
    (tmp_path / "code" / f".{A}").symlink_to(elsewhere)
    cache.put(A, b"code")
    assert cache.get(A) == b"code"
    assert elsewhere.read_bytes() == b"theirs"


def test_what_cannot_be_finished_leaves_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = opened(tmp_path)
    (tmp_path / "code" / A).mkdir()
    cache.put(A, b"code")
    assert "are not kept" in caplog.text
    assert [entry.name for entry in (tmp_path / "code").iterdir()] == [A]


def test_a_disk_that_takes_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = opened(tmp_path)
    (tmp_path / "code").rmdir()
    cache.put(A, b"code")
    assert cache.get(A) is None
    assert cache.statistics().size_bytes == 0
    assert "are not kept" in caplog.text


@pytest.mark.parametrize("spoil", [lambda secret: secret.chmod(0o644), lambda secret: os.truncate(secret, 31)])
def test_a_secret_that_is_none(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    opened(tmp_path)
    spoil(tmp_path / "keys" / "code.key")
    with pytest.raises(StoreError, match=r"code\.key"):
        opened(tmp_path)
