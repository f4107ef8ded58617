"""A connection without a socket: bytes into one of uvicorn's protocols, and what it writes."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import uvicorn
from uvicorn.server import ServerState

DATE = (b"date", b"Sun, 29 Nov 2026 00:00:00 GMT")


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False
        self.paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, data: Any) -> None:
        if not self.closed:  # as sockets' transports do
            self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Face:
    """Connections of one protocol class in front of one application."""

    def __init__(self, app: Any, protocol: Any) -> None:
        self._config = uvicorn.Config(
            app, http=protocol, lifespan="off", log_config=None, access_log=False, ws="none", proxy_headers=False
        )
        self._config.load()
        self.state = ServerState()
        self.state.default_headers = [DATE]
        self._protocol = protocol

    def connect(self) -> tuple[Any, Wire]:
        connection = self._protocol(self._config, self.state, {}, asyncio.get_running_loop())
        connection.connection_made(wire := Wire())
        return connection, wire

    async def talk(self, pieces: list[bytes]) -> tuple[list[bytes], bool]:
        """The answers to what is sent, and whether the connection was closed after them."""
        connection, wire = self.connect()
        for piece in pieces:
            if wire.closed:
                break
            connection.data_received(piece)
            await settled(wire)
        await settled(wire)
        closed = wire.closed
        connection.connection_lost(None)
        return answers(bytes(wire.written)), closed


class ThreadCountingLoop(asyncio.SelectorEventLoop):
    """A loop that knows what it waits for on other threads."""

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: set[asyncio.Future[Any]] = set()

    def run_in_executor(self, executor: Any, func: Any, *arguments: Any) -> "asyncio.Future[Any]":
        future = super().run_in_executor(executor, func, *arguments)
        self.elsewhere.add(future)
        future.add_done_callback(self.elsewhere.discard)
        return future


async def settled(wire: Wire) -> None:
    """Return when nothing more comes of itself: no thread works, and some turns of the loop changed nothing."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ThreadCountingLoop)
    quiet, before = 0, -1
    while quiet < 10:
        quiet = quiet + 1 if len(wire.written) == before and not loop.elsewhere else 0
        before = len(wire.written)
        await asyncio.sleep(0.0005 if loop.elsewhere else 0)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end on such a loop."""
    with asyncio.Runner(loop_factory=ThreadCountingLoop) as runner:
        return runner.run(main)


def opened_on_a_loop(scene: Callable[[], Any]) -> Callable[..., Callable[[], None]]:
    """Makes tests of coroutines that take a scene, each of which is opened on a loop of its own."""

    def decorate(test: Callable[[Any], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def wrapped() -> None:
            async def main() -> None:
                await test(await scene().open())

            run(main())

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


def answers(written: bytes) -> list[bytes]:
    """What was written, answer by answer, without what differs from run to run or may stand in any order."""
    text = re.sub(rb"(dur=)[0-9.]+|(\"incident\":\")[0-9a-f]+", rb"\1\2", written)
    found = []
    while text:
        head, _, rest = text.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        length = next((int(line[16:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
        status, *headers = lines
        found.append(b"\r\n".join([status, *sorted(headers), b"", rest[:length]]))
        text = rest[length:]
    return found
