"""A host whose disk, clock, descriptors or database fail under it: it says so, serves on where it can, and recovers.

One host goes through all of it, since each test must leave it as it was.
"""

import resource
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from sandseal_sdk import Client
from sandseal_sdk.errors import HostFailed, HostUnreachable, NotAllowed
from support.faults import Faults
from support.hosts import RunningHost, running_host
from support.onnx_models import mlp
from support.waiting import wait_until

pytestmark = pytest.mark.slow

ROW = np.ones((1, 128), np.float32)
DAY_S = 86_400


@dataclass
class World:
    """A host that serves `acme.mlp`, and what can fail under it."""

    host: RunningHost
    faults: Faults
    data: Path
    publisher: object
    versions: Iterator[int] = field(default_factory=lambda: count(1))

    def next_seal(self) -> Path:
        """The next version, which nobody has pushed."""
        version = next(self.versions)
        return self.publisher.seal(mlp((128, 32 + version, 10)), version=version)

    def serves(self) -> None:
        """Ask the model, on a connection of its own."""
        with self.host.client() as client:
            assert client.infer("acme.mlp", {"x": ROW})["y"].shape == (1, 10)


@pytest.fixture(scope="module")
def world(lasting, tmp_path_factory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("faults")
    faults = Faults(folder / "data", folder / "state")
    settings = {**faults.environment, "SANDSEAL_SCRUB_MIB_S": "0"}
    with running_host(lasting.trust, folder / "data", settings) as host:
        world = World(host, faults, folder / "data", lasting)
        with host.client() as client:
            client.push(world.next_seal())
        yield world


def refused(act: Callable[[], object]) -> None:
    with pytest.raises(HostFailed) as refusal:
        act()
    assert refusal.value.code == "store_failed", refusal.value.message
    assert refusal.value.hint


@pytest.mark.parametrize("fault", ["full", "read_only"])
def test_a_disk_that_takes_nothing(world, fault):
    seal = world.next_seal()
    with world.host.client() as client:
        world.faults.set(**{fault: True})
        for push in (client.push, client.push_offer):
            refused(lambda push=push: push(seal))
        for act in (lambda: client.issue_token("ci", ["infer"]), lambda: client.revoke("blob", "0" * 64)):
            refused(act)
        for _ in range(20):
            world.serves()
        world.faults.set()
        accepted = client.push(seal)
        assert accepted["state"] == "ready"
        assert client.bundles()[-1]["id"] == accepted["id"]
        client.issue_token("ci", ["infer"])
    world.serves()
    assert not list((world.data / "blobs" / "incoming").iterdir())


def test_a_clock_that_jumps(world):
    with world.host.client() as client:
        soon = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        secret = client.issue_token("day", ["infer"], expires=soon)["secret"]
        with Client(world.host.url, secret) as short:
            for days in (0, 30, -30, 0):
                world.faults.set(clock_s=days * DAY_S)
                time.sleep(1.1)  # for as long a token that was looked at is believed
                assert client.infer("acme.mlp", {"x": ROW}, timeout=60.0)["y"].shape == (1, 10)
                if days > 0:
                    with pytest.raises(NotAllowed):
                        short.infer("acme.mlp", {"x": ROW})
                else:
                    short.infer("acme.mlp", {"x": ROW})
                assert client.push(world.next_seal())["state"] == "ready"
        assert client.ready()


def test_no_descriptors_left(world):
    seal, pid = world.next_seal(), world.host.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with world.host.client() as client, ExitStack() as stack:
        client.infer("acme.mlp", {"x": ROW})
        taken = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + 2, limits[1]))
        stack.callback(resource.prlimit, pid, resource.RLIMIT_NOFILE, limits)
        for _ in range(20):
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", world.host.port), timeout=60)))
        refused(lambda: client.push(seal))
        for _ in range(20):
            client.infer("acme.mlp", {"x": ROW})

    def serves_again() -> bool:
        try:
            world.serves()
        except HostUnreachable:  # a server that can accept nobody looks again after a while
            return False
        return True

    wait_until(serves_again)
    with world.host.client() as client:
        assert client.push(seal)["state"] == "ready"


def test_a_database_that_is_locked_for_a_while(world):
    issued = []
    with world.host.client() as client, closing(sqlite3.connect(world.data / "catalog.sqlite")) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=lambda: issued.append(client.issue_token("ci", ["infer"])))
        writer.start()
        for _ in range(20):
            world.serves()
        assert not issued
        other.execute("ROLLBACK")
        writer.join(60)
    assert issued


def test_a_database_that_is_gone(world):
    seal, kept = world.next_seal(), world.data / "kept"
    kept.mkdir()
    with world.host.client() as client:
        for path in world.data.glob("catalog.sqlite*"):
            shutil.move(path, kept / path.name)
        refused(lambda: client.issue_token("ci", ["infer"]))
        refused(lambda: client.push(seal))
        world.serves()
        for path in kept.iterdir():
            shutil.move(path, world.data / path.name)
        client.issue_token("ci", ["infer"])
        assert client.push(seal)["state"] == "ready"


def test_a_database_that_is_damaged_and_a_disk_that_fails_at_the_start(lasting, tmp_path):
    data, path = tmp_path / "data", tmp_path / "data" / "catalog.sqlite"
    faults = Faults(data, tmp_path / "state")
    with running_host(lasting.trust, data) as host, host.client() as client:
        client.push(lasting.seal(mlp(), "acme.other"))
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
        refused(lambda: client.issue_token("ci", ["infer"]))
        time.sleep(1.1)
        refused(lambda: client.infer("acme.other", {"x": ROW}))  # whose token it is, nobody can say
    with pytest.raises(RuntimeError, match="store_failed"), running_host(lasting.trust, data):
        pass
    for other in data.glob("catalog.sqlite-*"):
        other.unlink()
    path.write_bytes(whole)
    faults.set(read_only=True)
    with pytest.raises(RuntimeError, match="store_failed"), running_host(lasting.trust, data, faults.environment):
        pass
    faults.set()
    with running_host(lasting.trust, data, faults.environment) as host, host.client() as client:
        host.wait_ready()
        assert client.infer("acme.other", {"x": ROW})["y"].shape == (1, 10)
        assert client.push(lasting.seal(mlp((128, 64, 10)), "acme.other", version=2))["state"] == "ready"
