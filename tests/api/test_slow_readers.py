"""Clients that read late get what was theirs, over real sockets: outputs go out as they lie in memory."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
import uvicorn
from uvicorn.server import ServerState

from api.double import HostDouble, ModelsDouble
from api.test_faces import request
from sandseal_host.api.protocol import DataPlaneProtocol
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.session import Session
from sandseal_signing.manifest import Manifest
from support import onnx_models
from support.serving import ready_model
from support.staged_device import staged

uvloop = pytest.importorskip("uvloop")

WIDTH = 500_000  # FP32, 2 MB: more than sockets take in by themselves
SLOW, QUICK = 6, 24


def ask(number: int) -> bytes:
    """A request whose row is full of this number, answered in binary."""
    row = np.full((1, WIDTH), number, np.float32)
    head = (
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,%d],"parameters":{"binary_data_size":%d}}],'
        b'"parameters":{"binary_data_output":true}}' % (WIDTH, row.nbytes)
    )
    return request(head + row.tobytes(), b"Inference-Header-Content-Length: %d" % len(head))


class Server:
    """The data plane's protocol in front of a real session, on a thread's loop of this kind."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self._session, self._loop = session, loop
        self._stopped, self.started = asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> "Server":
        self._thread.start()
        assert self.started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(60)
        self._loop.close()

    def connect(self) -> socket.socket:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.port))
        return connection

    async def _serve(self) -> None:
        model = ready_model(runner=self._session, described=Manifest("wide", 1, onnx_models.identity().spec))
        host = HostDouble(ModelsDouble(model))
        config = uvicorn.Config(host.app, http=DataPlaneProtocol, lifespan="off", log_config=None, access_log=False)
        config.load()
        state = ServerState()
        server = await self._loop.create_server(
            lambda: DataPlaneProtocol(config, state, {}, self._loop), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]
        self.started.set()
        await self._stopped.wait()
        server.close()
        await model.drain()
        await model.unload()


def numbers_in(connection: socket.socket) -> set[float]:
    """What the answer's row holds."""
    with connection.makefile("rb") as answer:
        assert answer.readline().startswith(b"HTTP/1.1 200")
        headers = dict(line.lower().strip().split(b": ", 1) for line in iter(answer.readline, b"\r\n"))
        body = answer.read(int(headers[b"content-length"]))
    return set(np.frombuffer(body[-4 * WIDTH :], np.float32).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("device", [Device.parse("cpu"), staged()], ids=["host's memory", "staged"])
@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_late_readers_get_their_own_bytes(loop, device):
    spec = onnx_models.identity().spec
    with (
        Session.open(ModelFiles(spec, onnx_models.identity().data), device) as session,
        Server(session, loop()) as server,
        ThreadPoolExecutor(8) as threads,
        ExitStack() as connections,
    ):
        late = [connections.enter_context(server.connect()) for _ in range(SLOW)]
        for number, connection in enumerate(late):
            threads.submit(connection.sendall, ask(number)).result()

        def quick(number: int) -> set[float]:
            with server.connect() as connection:
                connection.sendall(ask(number))
                return numbers_in(connection)

        assert list(threads.map(quick, range(100, 100 + QUICK))) == [{float(n)} for n in range(100, 100 + QUICK)]
        assert [numbers_in(connection) for connection in late] == [{float(n)} for n in range(SLOW)]
