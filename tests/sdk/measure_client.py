"""What a call costs in each client: one row of 128 FP32 in binary, and 1 MiB, one call after the other.

    python tests/sdk/measure_client.py

The server answers at once and looks at nothing, so the times are the clients' own and the way there and back;
microseconds at the median, the best of ten rounds in which the clients take turns.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio

sys.path.insert(0, str(Path(__file__).parent.parent))

from sandseal_sdk import AsyncClient, Client
from support.hosts import wait_listening

_CALLS, _ROUNDS = 100, 10
_SERVER = """
import sys, uvicorn
answer = open(sys.argv[2], "rb").read()
headers = [(b"content-length", b"%d" % len(answer)), (b"inference-header-content-length", sys.argv[3].encode())]
async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
uvicorn.run(app, port=int(sys.argv[1]), http="httptools", loop="uvloop", lifespan="off", access_log=False)
"""


def main() -> None:
    """Print a table."""
    print("| client | 1 x 128 | 1 x 262144 |\n|---|---|---|")
    columns = [_measured(width, 18_340 + at) for at, width in enumerate((128, 262_144))]
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(f"{column[name]:.0f} us" for column in columns) + " |")


def _measured(width: int, port: int) -> dict[str, float]:
    row = np.ones((1, width), np.float32)
    parameters = {"binary_data_size": row.nbytes}
    output = {"name": "y", "datatype": "FP32", "shape": [1, width], "parameters": parameters}
    head = json.dumps({"model_name": "m", "model_version": "1", "outputs": [output]}).encode()
    with tempfile.NamedTemporaryFile() as answer:
        answer.write(head + row.tobytes())
        answer.flush()
        server = [sys.executable, "-c", _SERVER, str(port), answer.name, str(len(head))]
        with subprocess.Popen(server, stderr=subprocess.DEVNULL) as process:
            try:
                wait_listening(port)
                return asyncio.run(_later(port, row)) | _now(port, row)
            finally:
                process.terminate()


def _now(port: int, row: np.ndarray) -> dict[str, float]:
    with Client(f"http://127.0.0.1:{port}", "t") as ours, httpx.Client(base_url=f"http://127.0.0.1:{port}") as bare:
        theirs = triton.InferenceServerClient(f"127.0.0.1:{port}")
        body, headers = row.tobytes(), {"Authorization": "Bearer t", "Inference-Header-Content-Length": "0"}

        def ask_triton() -> None:
            tensor = triton.InferInput("x", list(row.shape), "FP32")
            tensor.set_data_from_numpy(row)
            theirs.infer("m", [tensor], outputs=[triton.InferRequestedOutput("y")]).as_numpy("y")

        def ask_bare() -> None:
            bare.post("/v2/models/m/infer", content=body, headers=headers)

        contenders = {
            "httpx alone, the same bytes": ask_bare,
            "sandseal_sdk.Client": lambda: ours.infer("m", {"x": row}),
            "tritonclient.http": ask_triton,
        }
        rounds = [
            {name: median(_us(ask) for _ in range(_CALLS)) for name, ask in contenders.items()} for _ in range(_ROUNDS)
        ]
    return _best(rounds)


def _best(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def _us(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1e6


async def _later(port: int, row: np.ndarray) -> dict[str, float]:
    theirs = triton_aio.InferenceServerClient(f"127.0.0.1:{port}")

    async def ask_triton() -> None:
        tensor = triton.InferInput("x", list(row.shape), "FP32")
        tensor.set_data_from_numpy(row)
        (await theirs.infer("m", [tensor], outputs=[triton.InferRequestedOutput("y")])).as_numpy("y")

    async with AsyncClient(f"http://127.0.0.1:{port}", "t") as ours:
        contenders = {
            "sandseal_sdk.AsyncClient": lambda: ours.infer("m", {"x": row}),
            "tritonclient.http.aio": ask_triton,
        }
        rounds = [{name: await _median_later(ask) for name, ask in contenders.items()} for _ in range(_ROUNDS)]
    await theirs.close()
    return _best(rounds)


async def _median_later(ask: Callable[[], Coroutine[Any, Any, object]]) -> float:
    times = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        await ask()
        times.append((time.perf_counter() - began) * 1e6)
    return median(times)


if __name__ == "__main__":
    main()
