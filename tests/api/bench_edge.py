"""What the edge alone costs: requests a second of a NumPy model behind it, and of a bare echo, interleaved.

    PYTHONPATH=tests python tests/api/bench_edge.py [rounds]

Server and load run on a core each where there are two; the ratio is the median over the rounds.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson
import uvicorn

from api.double import HostDouble, ModelsDouble, mlp
from bench.load import Target, measure

_ECHO = Path(__file__).parent.parent / "bench" / "echo.py"
_EDGE_PORT, _ECHO_PORT = 18_123, 18_124
_TOKEN = {"Authorization": "Bearer root"}


def serve(port: int) -> None:
    uvicorn.run(
        HostDouble(ModelsDouble(mlp(remember=False))).app,
        host="127.0.0.1",
        port=port,
        http="httptools",
        loop="uvloop",
        lifespan="off",
        access_log=False,
        server_header=False,
        log_level="error",
    )


def request(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    return "\r\n".join((*lines, *(f"{n}: {v}" for n, v in headers.items()), "", "")).encode() + body


def bodies() -> dict[str, tuple[bytes, Mapping[str, str]]]:
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(1, 128)
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 128]}
    binary = {
        "inputs": [tensor | {"parameters": {"binary_data_size": 512}}],
        "parameters": {"binary_data_output": True},
    }
    head = orjson.dumps(binary)
    text = orjson.dumps({"inputs": [tensor | {"data": x.ravel()}]}, option=orjson.OPT_SERIALIZE_NUMPY)
    return {
        "binary": (head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head)), **_TOKEN}),
        "json": (text, _TOKEN),
    }


def started(core: int, *command: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["taskset", "-c", str(core), sys.executable, *command])


def main(rounds: int) -> None:
    first, second, *_ = sorted(os.sched_getaffinity(0))
    servers = [
        started(first, __file__, "serve", str(_EDGE_PORT)),
        started(first, str(_ECHO), str(_ECHO_PORT), "180"),
    ]
    try:
        time.sleep(3)
        for name, (body, headers) in bodies().items():
            edge = Target(_EDGE_PORT, request("/v2/models/mlp/infer", body, headers))
            echo = Target(_ECHO_PORT, request("/", body, headers))
            rates = [(measure(edge, 32, 2, second), measure(echo, 32, 2, second)) for _ in range(rounds)]
            ours, bare = (statistics.median(side) for side in zip(*rates, strict=True))
            ratio = statistics.median(a / b for a, b in rates)
            over = 1e6 / ours - 1e6 / bare
            print(f"{name:7s} edge {ours:6.0f}/s  echo {bare:6.0f}/s  ratio {ratio:.2f}  {over:5.1f} us over echo")
    finally:
        for server in servers:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    serve(int(sys.argv[2])) if sys.argv[1:2] == ["serve"] else main(int(sys.argv[1]) if sys.argv[1:] else 5)
