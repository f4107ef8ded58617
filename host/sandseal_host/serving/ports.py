"""What serving needs from other rooms, as it sees it: something that runs a batch, something that runs a stage.

runtime and sandbox implement these without importing serving; tests implement them in a few lines.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from sandseal_host.serving.request import Response
from sandseal_host.tensors import Tensor


class Waiter(Protocol):
    """Whoever waits for a request's answer, as an `asyncio.Future` does; all calls come from the event loop."""

    def done(self) -> bool:
        """Whether no answer is wanted any more: it came, or its waiter has gone."""
        ...

    def set_result(self, result: Response, /) -> None:
        """Take the response."""
        ...

    def set_exception(self, exception: Exception, /) -> None:
        """Take the reason why there will be none."""
        ...


class Cancellable(Protocol):
    """Work under way for a waiter."""

    def cancel(self) -> object:
        """Give it up as soon as possible; its waiter must be `done`."""
        ...


class Closeable(Protocol):
    """Something that is in use until it is closed."""

    def close(self) -> None:
        """Let go of it; blocks."""
        ...


class RunHandle(Protocol):
    """A hold on one run (ONNX Runtime's `RunOptions`)."""

    terminate: bool
    """Set from any thread, ends the run at its next node; the run then fails."""


class BatchRunner(Protocol):
    """A model on a device that runs several requests' rows at once (runtime's `Session`)."""

    @property
    def max_rows(self) -> int:
        """The most rows that one run takes."""
        ...

    def bucket(self, inputs: tuple[Tensor, ...]) -> Hashable:
        """Requests of equal buckets may share a batch (equal shapes behind the batch axis)."""
        ...

    def handle(self) -> RunHandle:
        """What one batch's runs can be ended by; costs a microsecond."""
        ...

    def run(self, requests: Sequence[tuple[Tensor, ...]], handle: RunHandle | None = None) -> list[tuple[Tensor, ...]]:
        """Run the requests as one batch and split the outputs again, in order. Blocks; called on a lane's thread.

        Args:
            requests: each the inputs in the spec's order.
            handle: ends the run; None where nobody will.

        Raises:
            ModelFailed: the run failed for a cause that an input can have.
            MemoryExhausted: the device had no room.
        """
        ...

    def close(self) -> None:
        """Give all memory back; no run may be in flight."""
        ...


class StageRunner(Protocol):
    """A plugin's stage behind whatever runs it: worker processes or threads (sandbox's `WorkerStage`, `StagePool`)."""

    async def apply(
        self, inputs: tuple[Tensor, ...], parameters: bytes, urgency: float, deadline: float
    ) -> tuple[Tensor, ...]:
        """Run the stage on one request's tensors.

        Args:
            inputs: in the order of the stage's spec.
            parameters: the request's parameters, UTF-8 JSON.
            urgency: virtual deadline on the monotonic clock; the earliest runs first.
            deadline: seconds on the monotonic clock after which the call is not begun.

        Raises:
            InputRefused: the plugin refuses the input.
            DeadlineExpired: not begun in time.
            PluginError: it trapped, ran too long, or returned nonsense.
        """
        ...

    def close(self) -> None:
        """Stop taking calls and drop the compiled plugin."""
        ...
