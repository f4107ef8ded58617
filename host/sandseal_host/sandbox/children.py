"""Processes that this room starts and talks to: with nothing of the host's environment, and gone as a group."""

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, cast

from sandseal_host.sandbox.printable import printable

# What a Python needs to be found and to be the same one; nothing else is handed on.
_ENVIRONMENT = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "HOME")
# Left alone, these libraries would start a thread per core, whose stacks count as memory.
_LIBRARIES = {
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip
_NOISE = 1000  # bytes


def start_child(command: Sequence[str], channel: socket.socket, files: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
    """Start a process whose standard input is a socket to the host.

    Args:
        files: further descriptors that it gets, under their numbers.

    Raises:
        OSError: no process can be had.
    """
    return subprocess.Popen(
        command,
        stdin=channel.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _LIBRARIES,
        pass_fds=files,
        start_new_session=True,  # no terminal, and a process group to end as a whole
    )


def kill_child(process: "subprocess.Popen[bytes]") -> None:
    """End it and its group at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def bury_child(process: "subprocess.Popen[bytes]") -> str:
    """End it, wait until it has ended, and say how it ended; blocks."""
    kill_child(process)
    status = process.wait()
    noise = cast(IO[bytes], process.stderr)
    os.set_blocking(noise.fileno(), False)
    said = printable(b" ".join((noise.read() or b"").split())[-_NOISE:], _NOISE)
    noise.close()
    return f"status {status}" + (f": {said}" if said else "")
