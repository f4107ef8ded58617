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
    """A profiler that kills the process before the call in `CALLS` of this number, counted from 0."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, frame, event, called) -> None:
        if event == "c_call" and called.__name__ in CALLS:
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1


def survives(folder: Path, policy, work: Work, number: int) -> bool:
    """Start on `folder` and work in a process with a fuse; whether it came to its end."""
    child = os.fork()
    if child == 0:
        sys.setprofile(Fuse(number))
        try:
            work(DataFolder(folder, policy))
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == 0


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


@pytest.fixture
def warm(tmp_path, policy, archives) -> None:
    """Everything imported and compiled, so that the same work makes the same calls."""
    (tmp_path / "warm").mkdir()
    data = DataFolder(tmp_path / "warm", policy)
    for work in (*map(push, archives.values()), delete_all):
        work(data)
    data.stop()


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("case", ["first upload", "second upload", "same upload", "deletion"])
def test_killed_before_any_call_it_starts_again_consistent(tmp_path, policy, archives, case):
    one, two = archives.values()
    before, work, again = {
        "first upload": ([], push(one), [one]),
        "second upload": ([one], push(two), [two]),
        "same upload": ([one], push(one), [one]),
        "deletion": ([one], delete_all, [two]),
    }[case]
    template = tmp_path / "template"
    template.mkdir()
    if before:
        data = DataFolder(template, policy)
        for archive in before:
            push(archive)(data)
        data.stop()
    for number in range(1000):
        folder = shutil.copytree(template, tmp_path / "data")
        survived = survives(folder, policy, work, number)
        check(folder, policy, again)
        shutil.rmtree(folder)
        if survived:
            break
    assert 20 < number < 999


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
