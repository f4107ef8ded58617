"""What every call of the synchronous client goes through."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from sandseal_sdk.hosts.answer import Answer
from sandseal_sdk.hosts.call import Call, with_query
from sandseal_sdk.hosts.connection import Connection
from sandseal_sdk.hosts.patience import CALLS, Patience
from sandseal_sdk.hosts.target import Target, Waits
from sandseal_sdk.hosts.tls import Tls


class Session:
    """Connections to one host, and how calls go over them; the arguments are `Client`'s."""

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
        self._timeout = timeout
        self._connection = Connection(Target(url, token, tls), patience, connections, max_answer_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; later calls fail with ClientClosed."""
        self._connection.close()

    def _read(self, path: str, **query: Any) -> Any:
        """The document at a path."""
        call = Call("GET", with_query(path, query))
        return self._insist(lambda _: call).json()

    def _insist(self, ask: Callable[[float | None], Call], timeout: float | None = None) -> Answer:
        """Send what may be sent twice; `ask` gets the seconds that are left."""
        return self._connection.insist(
            lambda left: self._connection.send(ask(left), Waits.of(left)), timeout or self._timeout
        )

    def _send(self, call: Call, waits: Waits | None = None) -> Answer:
        """Send something once."""
        return self._connection.send(call, waits or Waits.of(self._timeout))
