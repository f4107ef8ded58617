"""Plugins of a real host run in processes of their own, which may die; or on threads, where the operator says so."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from e2e.test_failing_plugins import GOOD, ask, metric, sealed
from sandbox.worker_host import worker_pids
from support.hosts import RunningHost
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.mark.skipif(sys.platform != "linux", reason="sandbox workers need Linux")
def test_workers_are_replaced_and_the_host_says_when_there_are_none(start, publisher, tmp_path) -> None:
    held = tmp_path / "held"
    with start(SANDSEAL_PLUGIN_WORKERS="1", PYTHONPATH=holding(tmp_path, held)) as host, ThreadPoolExecutor(1) as pool:
        with host.client() as client:
            client.push(sealed(publisher, "acme.moody", "refuse"))
        (pid,) = worker_pids(host.process.pid)
        assert ask(host, "acme.moody", GOOD).status_code == 200
        assert metric(host, "sandseal_workers_ready") == 1
        for _ in range(2):  # the second one is not replaced at once
            (pid,) = worker_pids(host.process.pid)
            held.touch()
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not ready(host).json()["ready"])
            assert "no process that runs plugins is alive" in ready(host).json()["error"]
            waiting = pool.submit(ask, host, "acme.moody", GOOD)
            held.unlink()
            assert waiting.result().status_code == 200
            wait_until(lambda: ready(host).json()["ready"])
        assert metric(host, "sandseal_workers_restarts") == 2
        assert metric(host, "sandseal_plugin_calls", "acme.moody") == 3
        (pid,) = worker_pids(host.process.pid)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def holding(folder: Path, held: Path) -> str:
    """A path for Python's modules with which no worker starts while a file is there."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(f"""
import os, sys, time
while any("workers.worker" in word for word in sys.orig_argv) and os.path.exists({str(held)!r}):
    time.sleep(0.01)
""")
    return str(folder / "site")


def test_threads_run_plugins_where_no_workers_are_wanted(start, publisher) -> None:
    with start(SANDSEAL_PLUGIN_WORKERS="0") as host:
        with host.client() as client:
            client.push(sealed(publisher, "acme.moody", "refuse"))
        assert ask(host, "acme.moody", GOOD).status_code == 200
        assert metric(host, "sandseal_plugin_calls", "acme.moody") == 1
        assert not worker_pids(host.process.pid)


def ready(host: RunningHost) -> httpx.Response:
    return httpx.get(f"{host.url}/v2/health/ready")
