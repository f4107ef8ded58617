"""Killed at any call that touches disk or database, a host starts again with whole bundles and nothing else."""

import io
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandseal_signing.keys import PrivateKey
from support.bundles import FILES, seal, trust
from support.data_folder import DataFolder

pytestmark = pytest.mark.slow

Work = Callable[[DataFolder], None]

# The calls that change something on disk; what happens between two of them cannot be told apart after a crash.
CALLS = {"write", "fchmod", "fsync", "replace", "unlink", "execute", "executemany", "commit"}


class Fuse:
    """A profiler that counts the calls in `CALLS` and kills the process before one of them."""

    def __init__(self, last: int | None) -> None:
        self.count = 0
        self._last = last

    def __call__(self, frame, event, called) -> None:
        if event == "c_call" and called.__name__ in CALLS:
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked process; the process's wait status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def start_and_work(folder: Path, policy, work: Work, last: int | None, counted: Path | None = None) -> int:
    def run() -> None:
        fuse = Fuse(last)
        sys.setprofile(fuse)
        work(DataFolder(folder, policy))
        sys.setprofile(None)
        if counted is not None:
            counted.write_text(str(fuse.count))

    return in_child(run)


def check(folder: Path, policy, again: list[bytes]) -> None:
    """Start on what the crash left: only whole bundles, no stray file; and what was cut off can be done again."""
    data = DataFolder(folder, policy)
    try:
        with data.catalog.database.reading() as session:
            assert session.connection().exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        bundles = [data.registry.open(accepted.id) for accepted in data.registry.list()]
        assert set(data.files().values()) == {content for bundle in bundles for content in bundle.files.values()}
        assert all(name.startswith("sha256/") for name in data.files())
        for archive in again:
            data.registry.accept(io.BytesIO(archive), lambda _: None)
    finally:
        data.stop()


@pytest.fixture
def policy(alice: PrivateKey):
    return trust({"alice": alice})


@pytest.fixture
def archives(alice: PrivateKey) -> dict[int, bytes]:
    files = {**FILES, "model.onnx.data": bytes(3 << 19)}  # two chunks
    return {version: seal([alice], version=version, files=files) for version in (1, 2)}


def push(archive: bytes) -> Work:
    return lambda data: data.registry.accept(io.BytesIO(archive), lambda _: None) and None


def delete_all(data: DataFolder) -> None:
    for accepted in data.registry.list():
        data.registry.delete(accepted.id)


@pytest.mark.parametrize("case", ["first upload", "second upload", "same upload", "deletion"])
def test_killed_before_any_call_it_starts_again_consistent(tmp_path, policy, archives, case):
    before, work, again = {
        "first upload": ([], push(archives[1]), [archives[1], archives[2]]),
        "second upload": ([archives[1]], push(archives[2]), [archives[1], archives[2]]),
        "same upload": ([archives[1]], push(archives[1]), [archives[1], archives[2]]),
        "deletion": ([archives[1]], delete_all, [archives[2]]),
    }[case]
    template = tmp_path / "template"
    template.mkdir()
    if before:
        data = DataFolder(template, policy)
        for archive in before:
            push(archive)(data)
        data.stop()
    counted = tmp_path / "count"
    shutil.copytree(template, tmp_path / "whole")
    assert start_and_work(tmp_path / "whole", policy, work, None, counted) == 0
    calls = int(counted.read_text())
    assert calls > 50
    for last in range(calls):
        folder = tmp_path / str(last)
        shutil.copytree(template, folder)
        status = start_and_work(folder, policy, work, last)
        assert os.WIFSIGNALED(status), f"call {last} of {calls} was not reached"
        check(folder, policy, again)
        shutil.rmtree(folder)


def test_killed_at_any_time_while_busy_it_starts_again_consistent(tmp_path, policy, alice):
    archives = [seal([alice], version=version, release=str(version)) for version in range(1, 200)]
    chance = random.Random(7)

    def busy(data: DataFolder) -> None:
        newest = max((accepted.version for accepted in data.registry.list()), default=0)
        for archive in archives[newest:]:
            data.registry.accept(io.BytesIO(archive), lambda _: None)
            if len(data.registry.list()) > 3:
                data.registry.delete(data.registry.list()[0].id)

    for _ in range(30):
        child = os.fork()
        if child == 0:
            busy(DataFolder(tmp_path, policy))
            os._exit(0)
        time.sleep(chance.uniform(0.05, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        check(tmp_path, policy, [])
