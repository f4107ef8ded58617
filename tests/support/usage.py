"""What a running host uses of its machine, where the system tells (Linux)."""

import os
import resource
from pathlib import Path

from support.hosts import RunningHost


def resident(host: RunningHost) -> int:
    """Bytes of memory that its process has now; 0 where nothing tells."""
    found = _read(host, "statm")
    return int(found.split()[1]) * resource.getpagesize() if found else 0


def processor_s(host: RunningHost) -> float:
    """Seconds of processor that its process has taken; 0 where nothing tells."""
    found = _read(host, "stat").rpartition(")")[2].split()
    return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK") if found else 0.0


def _read(host: RunningHost, name: str) -> str:
    path = Path(f"/proc/{host.process.pid}/{name}")
    return path.read_text() if path.exists() else ""
