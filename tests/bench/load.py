"""Load on an HTTP server: keep-alive connections that send one prepared request again and again.

Runs as a process of its own (`python load.py`), so that the measured server has its core to itself. It parses as
little as it can: the first answer's length is taken as every answer's, and each must begin with the same status line.
"""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """Where to, and the whole request as bytes."""

    port: int
    request: bytes


def measure(target: Target, connections: int, seconds: float, core: int | None) -> float:
    """Answers per second over `seconds`, from `connections` connections."""
    job = {"port": target.port, "request": target.request.hex(), "connections": connections, "seconds": seconds}
    pin = [] if core is None else ["taskset", "-c", str(core)]
    done = subprocess.run(
        [*pin, sys.executable, str(Path(__file__))],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the load generator failed: {done.stderr.strip()[-500:]}")
    return float(done.stdout)


class _Connection(asyncio.Protocol):
    """One connection: an answer in, the next request out."""

    answers = 0
    length = 0
    failure = ""

    def __init__(self, request: bytes) -> None:
        self._request, self._buffer = request, bytearray()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if len(data) == _Connection.length and not self._buffer:
            _Connection.answers += 1
            self.transport.write(self._request)
            return
        self._buffer += data
        while (length := complete(self._buffer)) and length <= len(self._buffer):
            if not self._buffer.startswith(b"HTTP/1.1 200"):
                _Connection.failure = bytes(self._buffer[:400]).decode(errors="replace")
                self.transport.close()
                return
            _Connection.length = length
            del self._buffer[:length]
            _Connection.answers += 1
            self.transport.write(self._request)


def complete(buffer: bytearray) -> int:
    """The length of the answer that begins here, 0 while its head is incomplete."""
    head = buffer.find(b"\r\n\r\n")
    if head < 0:
        return 0
    for line in bytes(buffer[:head]).lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + 4 + int(line[15:])
    raise ValueError("an answer without Content-Length")


async def _load(port: int, request: bytes, connections: int, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    open_ = [await loop.create_connection(lambda: _Connection(request), "127.0.0.1", port) for _ in range(connections)]
    await asyncio.sleep(min(0.5, seconds / 4))
    before, began = _Connection.answers, time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (_Connection.answers - before) / (time.perf_counter() - began)
    for transport, _ in open_:
        transport.abort()
    if _Connection.failure or rate == 0:
        sys.exit(_Connection.failure or "no answers at all")
    return rate


def _main() -> None:
    import uvloop

    job = json.load(sys.stdin)
    print(uvloop.run(_load(job["port"], bytes.fromhex(job["request"]), job["connections"], job["seconds"])))


if __name__ == "__main__":
    _main()
