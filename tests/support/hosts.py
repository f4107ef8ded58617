"""A real host in a process of its own, on a free port of the loopback interface."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandseal_sdk.client import Client


@dataclass(frozen=True)
class RunningHost:
    """A host that listens.

    Args:
        token: its operator's.
    """

    url: str
    token: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    def client(self, timeout: float = 60.0) -> Client:
        """A client with the operator's token."""
        return Client(self.url, self.token, timeout=timeout)

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Wait until everything that should serve was brought back."""
        with self.client() as client:
            until = time.monotonic() + seconds
            while not client.ready():
                if time.monotonic() > until:
                    raise TimeoutError(f"the host is not ready: {self.log.read_text()[-2000:]}")
                time.sleep(0.02)


@contextmanager
def running_host(
    trust: Path, data: Path, settings: Mapping[str, str] | None = None, pin: Sequence[str] = ()
) -> Iterator[RunningHost]:
    """Serve with this trust file and data folder; terminated, and waited for, at the end.

    Args:
        settings: SANDSEAL_* variables; one sandbox worker is enough by default.
        pin: what to put before the command, such as `taskset -c 0`.
    """
    command = [*pin, sys.executable, "-m", "sandseal_sdk", "serve", "--port", "0"]
    command += ["--trust", str(trust), "--data", str(data)]
    log = data.with_name(data.name + ".log")
    environment = {"SANDSEAL_PLUGIN_WORKERS": "1", **os.environ, **(settings or {})}
    with (
        log.open("ab") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            if not url:
                raise RuntimeError(f"the host did not start: {log.read_text()[-2000:]}")
            yield RunningHost(url, (data / "operator.token").read_text().strip(), process, log)
        finally:
            process.terminate()
            process.wait(60)


def wait_listening(port: int, seconds: float = 10.0) -> None:
    """Wait until something takes connections on a loopback port."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")
