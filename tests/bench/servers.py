"""The two sides of the serving figures: our host with one model, and a bare uvicorn ASGI app that echoes."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.load import Target
from sandseal_sdk import publish
from sandseal_signing.keys import PrivateKey
from sandseal_signing.pack import pack_folder
from support.hosts import RunningHost, running_host, wait_listening

_ECHO = Path(__file__).with_name("echo.py")


def target(host: RunningHost, path: str, body: bytes, headers: Mapping[str, str]) -> Target:
    """A prepared POST with the host's token."""
    return Target(host.port, request(path, body, {"Authorization": f"Bearer {host.token}", **headers}))


def request(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """An HTTP/1.1 POST as bytes."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def cores() -> tuple[int | None, int | None]:
    """A core for the server and one for the load, where this machine lets us choose."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return None, None
    first, second, *_ = sorted(os.sched_getaffinity(0))
    return first, second


def binary(rows: NDArray[np.float32], name: str) -> tuple[bytes, dict[str, str]]:
    """An inference's body with one FP32 input in the protocol's binary form, and what its head needs for it."""
    header = {
        "inputs": [
            {
                "name": name,
                "datatype": "FP32",
                "shape": list(rows.shape),
                "parameters": {"binary_data_size": rows.nbytes},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    text = json.dumps(header).encode()
    return text + rows.tobytes(), {"Inference-Header-Content-Length": str(len(text))}


@contextmanager
def host(folder: Path, model: Path, name: str, settings: Mapping[str, str] | None = None) -> Iterator[RunningHost]:
    """Serve an ONNX file from a bundle made, signed and pushed for this run; `folder` must not exist."""
    made = publish.init(model, folder, name=name)
    seal = folder / "model.seal"
    with seal.open("wb") as file:
        pack_folder(made.bundle, file, [PrivateKey.parse(made.key.read_bytes())])
    with running_host(made.trust, folder / "data", settings, _pin()) as running:
        with running.client() as client:
            client.push(seal)
        yield running


@contextmanager
def echo(answer_bytes: int) -> Iterator[int]:
    """A bare ASGI app under uvicorn with httptools and uvloop; its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*_pin(), sys.executable, str(_ECHO), str(port), str(answer_bytes)]
    with subprocess.Popen(command) as process:
        try:
            wait_listening(port)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def _pin() -> list[str]:
    core, _ = cores()
    return [] if core is None else ["taskset", "-c", str(core)]
