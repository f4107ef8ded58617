"""The client of a host for programs on an event loop."""

# ruff: noqa: ASYNC109  # callers' `timeout` is also what the host is told

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sandseal_sdk.errors import NoAnswer
from sandseal_sdk.hosts.answer import Answer
from sandseal_sdk.hosts.call import Call, model_path
from sandseal_sdk.hosts.connection import AsyncConnection
from sandseal_sdk.hosts.events import EventParser
from sandseal_sdk.hosts.inference import TensorRequest, plain_call, read_plain, read_receipt, read_tensors, text_call
from sandseal_sdk.hosts.patience import CALLS, Patience
from sandseal_sdk.hosts.target import Target, Waits
from sandseal_sdk.hosts.tls import Tls

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AsyncClient:
    """One host, for the tasks of one event loop: what `Client` does with models, with `await`.

    A task that is cancelled, or a call whose time is over, breaks its connection, and the host drops the request.

    Args:
        url, token, timeout, tls, patience, connections, max_answer_bytes: as `Client` has them.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float | None = 60.0,
        tls: Tls | None = None,
        patience: Patience = CALLS,
        connections: int = 64,
        max_answer_bytes: int = 1 << 30,
    ) -> None:
        self._url, self._timeout = url, timeout
        self._connection = AsyncConnection(Target(url, token, tls), patience, connections, max_answer_bytes)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; later calls fail with ClientClosed."""
        await self._connection.close()

    async def ready(self) -> bool:
        """Whether the host serves."""
        call = Call("GET", "/v2/health/ready", accept=(400, 503))
        return (await self._insist(lambda _: call)).status == 200

    async def models(self) -> list[dict[str, Any]]:
        """Every model that the token may see, with version and state."""
        call = Call("POST", "/v2/repository/index")
        return list((await self._insist(lambda _: call)).json())

    async def model(self, name: str, version: int | None = None) -> dict[str, Any]:
        """A model's inputs and outputs, as the protocol describes them."""
        call = Call("GET", model_path(name, version))
        return dict((await self._insist(lambda _: call)).json())

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, "NDArray[Any]"],
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> dict[str, "NDArray[Any]"]:
        """Run a model on NumPy arrays; see `Client.infer`."""
        request = TensorRequest(model, inputs, version, parameters, outputs)
        return read_tensors(await self._insist(request.call, timeout))

    async def call(
        self,
        model: str,
        body: bytes,
        content_type: str = "application/octet-stream",
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send a plain body to a model that takes one; see `Client.call`."""
        call = plain_call(model, body, content_type, version, parameters)
        return read_plain(await self._insist(lambda _: call, timeout))

    async def call_with_receipt(
        self,
        model: str,
        body: bytes,
        nonce: str,
        content_type: str = "application/octet-stream",
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> tuple[bytes, bytes]:
        """As `call`, with the answer as it came, and the receipt for it; see `Client.call_with_receipt`."""
        call = plain_call(model, body, content_type, version, parameters, nonce)
        return read_receipt(await self._insist(lambda _: call, timeout))

    async def generate(
        self,
        model: str,
        text: str,
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Let a model go on with a text; see `Client.generate`."""
        path = model_path(model, version) + "/generate"
        return dict((await self._insist(lambda left: text_call(path, text, parameters, left), timeout)).json())

    async def generate_stream(
        self,
        model: str,
        text: str,
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """As `generate`, in pieces as they come; see `Client.generate_stream`."""
        call = text_call(model_path(model, version) + "/generate_stream", text, parameters, None)
        waits = Waits.of(timeout or self._timeout)
        async with AsyncExitStack() as stack:
            pieces = await self._connection.insist(
                lambda _: stack.enter_async_context(self._connection.stream(call, waits)), waits.answer_s
            )
            parser = EventParser()
            async for piece in pieces:
                for event in parser.feed(piece):
                    yield event

    async def _insist(self, ask: Callable[[float | None], Call], timeout: float | None = None) -> Answer:
        """Send what may be sent twice; `ask` gets the seconds that are left."""
        within_s = timeout or self._timeout
        try:
            async with asyncio.timeout(Waits.of(within_s).answer_s):
                return await self._connection.insist(
                    lambda left: self._connection.send(ask(left), Waits.of(left)), within_s
                )
        except TimeoutError:
            raise NoAnswer(f"{self._url} does not answer within {within_s:g} s") from None
