"""A real host in a process of its own, on a free port of the loopback interface."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandseal_sdk.client import Client
from support.waiting import wait_until


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

    @property
    def grpc_port(self) -> int:
        """Where it listens for gRPC."""
        return int(wait_until(lambda: re.search(r"gRPC on port (\d+)", self.log.read_text()))[1])

    def client(self, timeout: float = 300.0) -> Client:
        """A client with the operator's token."""
        return Client(self.url, self.token, timeout=timeout)

    def wait_ready(self) -> None:
        """Wait until everything that should serve was brought back."""
        with self.client() as client:
            try:
                wait_until(client.ready)
            except AssertionError:
                raise TimeoutError(f"the host is not ready: {self.log.read_text()[-2000:]}") from None


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
            process.wait(120)


def wait_listening(port: int) -> None:
    """Wait until something takes connections on a loopback port."""

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens)
