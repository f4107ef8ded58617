"""Plugins of a real host run in processes of their own, which may die; or on threads, where the operator says so."""

import os
import signal
import sys
import time
from pathlib import Path

import httpx
import pytest

from e2e.test_failing_plugins import GOOD, ask, metric, sealed
from sandbox.worker_host import worker_pids
from support.hosts import RunningHost

pytestmark = pytest.mark.slow


@pytest.mark.skipif(sys.platform != "linux", reason="sandbox workers need Linux")
def test_workers_are_replaced_and_the_host_says_when_there_are_none(start, publisher) -> None:
    with start(SANDSEAL_PLUGIN_WORKERS="1") as host:
        with host.client() as client:
            client.push(sealed(publisher, "acme.moody", "refuse"))
        (pid,) = worker_pids(host.process.pid)
        assert ask(host, "acme.moody", GOOD).status_code == 200
        assert metric(host, "sandseal_workers_ready") == 1
        for _ in range(2):  # the second one is not replaced at once
            (pid,) = worker_pids(host.process.pid)
            os.kill(pid, signal.SIGKILL)
            wait_ready(host, False)
            assert "no process that runs plugins is alive" in ready(host).json()["error"]
            assert ask(host, "acme.moody", GOOD).status_code == 200  # it waited
            wait_ready(host, True)
        assert metric(host, "sandseal_workers_restarts") == 2
        assert metric(host, "sandseal_plugin_calls", "acme.moody") == 3
        (pid,) = worker_pids(host.process.pid)
    assert not Path(f"/proc/{pid}").exists()


def test_threads_run_plugins_where_no_workers_are_wanted(start, publisher) -> None:
    with start(SANDSEAL_PLUGIN_WORKERS="0") as host:
        with host.client() as client:
            client.push(sealed(publisher, "acme.moody", "refuse"))
        assert ask(host, "acme.moody", GOOD).status_code == 200
        assert metric(host, "sandseal_plugin_calls", "acme.moody") == 1
        assert not worker_pids(host.process.pid)


def ready(host: RunningHost) -> httpx.Response:
    return httpx.get(f"{host.url}/v2/health/ready")


def wait_ready(host: RunningHost, wanted: bool) -> None:
    deadline = time.monotonic() + 20
    while ready(host).json()["ready"] is not wanted:
        assert time.monotonic() < deadline
        time.sleep(0.005)
