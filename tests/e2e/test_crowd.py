"""Many connections at once, and load for a while: answered without an error, and memory stays flat; briefly.

`make bench SUITE=protocol` does it with 2,200 connections and for an hour.
"""

import threading
from collections.abc import Iterator
from itertools import pairwise

import httpx
import numpy as np
import pytest

from bench import servers
from support.crowd import idle_connections
from support.hosts import RunningHost
from support.usage import resident

pytestmark = pytest.mark.slow

IDLE, BUSY, ASKED = 400, 32, 100


def busy(host: RunningHost, statuses: list[int]) -> None:
    """One client that asks again and again over one connection."""
    body, headers = servers.binary(np.ones((1, 128), np.float32), "x")
    with httpx.Client(base_url=host.url, headers={"Authorization": f"Bearer {host.token}", **headers}) as client:
        for _ in range(ASKED):
            statuses.append(client.post("/v2/models/acme.mlp/infer", content=body, timeout=120).status_code)


def everybody(host: RunningHost) -> list[int]:
    """The statuses that `BUSY` clients are answered."""
    statuses: list[int] = []
    clients = [threading.Thread(target=busy, args=(host, statuses)) for _ in range(BUSY)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return statuses


def rounds(host: RunningHost) -> Iterator[int]:
    """Memory after each of some rounds."""
    for _ in range(4):
        assert everybody(host) == [200] * (BUSY * ASKED)
        yield resident(host)


def test_idle_connections_cost_the_busy_nothing(host):
    with idle_connections(host, IDLE):
        _, *memory = rounds(host)
    assert min(after - before for before, after in pairwise(memory)) < 1 << 20  # what leaks grows each time
    with host.client() as client:
        assert client.ready()
