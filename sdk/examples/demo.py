"""What the demos share: a place to work in, a host on loopback, and how they speak."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from rich.console import Console

from sandseal_sdk.client import Client

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".work"
PACKAGES = WORK / "packages"

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def step(text: str) -> None:
    """Say what happens next."""
    console.print(f"[bold]{text}[/]")


def whisper(text: str) -> None:
    """Say a detail of it."""
    console.print(f"  {text}", style="dim", markup=False)


@contextmanager
def serve(folder: Path) -> Iterator[Client]:
    """A client of a host of its own; see `running_host`."""
    with running_host(folder) as (url, token), Client(url, token) as client:
        yield client


@contextmanager
def running_host(folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[str, str]]:
    """The address and token of a host on loopback, stopped at the end; trust.toml lies in the folder, data too."""
    step("starting the host")
    command = [sys.executable, "-m", "sandseal_sdk", "serve", "--port", "0"]
    command += ["--trust", str(folder / "trust.toml"), "--data", str(folder / "data")]
    with (
        (folder / "host.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, **settings}) as host,
    ):
        try:
            url = host.stdout.readline().decode().strip() if host.stdout else ""
            if not url:
                sys.exit(f"the host did not start; its log:\n{(folder / 'host.log').read_text()}")
            console.print(f"  {url}")
            yield url, (folder / "data" / "operator.token").read_text().strip()
        finally:
            host.terminate()
            host.wait(30)
