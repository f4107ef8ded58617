"""A bundle's logits stage as a lane uses it: asked on the lane's thread, called on the event loop."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from sandseal_host.errors import HostError, ModelFailed
from sandseal_host.serving.generation.ports import Logits
from sandseal_host.serving.generation.request import GenerationRequest
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType

_GAP = 0.1  # of a class's target, within which a stream's next token should come


class StageStream(Protocol):
    """A stage's instance for one stream (sandbox's `PluginStream`, `WorkerStream`); lives on the event loop."""

    async def call(self, inputs: tuple[Tensor, ...], *, last: bool = False) -> tuple[Tensor, ...]:
        """Call it."""
        ...

    def close(self) -> None:
        """Drop it; never blocks."""
        ...


class StreamRunner(Protocol):
    """What makes such instances (sandbox's `StagePool`, `WorkerStage`)."""

    def stream(self, parameters: bytes, target_s: float, tenant: str) -> StageStream:
        """One for a tenant's stream with these parameters, whose calls should be answered within so many seconds."""
        ...


class LogitsStage:
    """Makes what looks at each request's logits; a `LogitsRunner`, on one event loop.

    Args:
        runner: has the plugin.
    """

    def __init__(self, runner: StreamRunner) -> None:
        self._runner = runner

    def constrain(self, request: GenerationRequest, answer: Callable[[Logits | HostError], None]) -> "StreamConstraint":
        """What looks at one request's logits; see `LogitsRunner`."""
        target_s = request.service_class.target_s * _GAP
        return StreamConstraint(self._runner.stream(request.constraints, target_s, request.tenant), answer)


class StreamConstraint:
    """One answer's instance of the stage; a `Constraint`. Made on the event loop.

    Args:
        stream: the instance.
        answer: see `LogitsRunner.constrain`; called on the event loop.
    """

    def __init__(self, stream: StageStream, answer: Callable[[Logits | HostError], None]) -> None:
        self._stream, self._answer = stream, answer
        self._loop = asyncio.get_running_loop()
        self._call: asyncio.Task[None] | None = None

    def ask(self, ids: Sequence[int], logits: Logits) -> None:
        """Begin to look at the next logits, from any thread."""
        self._tell(self._begin, logits_inputs(ids, logits))

    def close(self) -> None:
        """Let go of the instance, from any thread."""
        self._tell(self._end)

    def _begin(self, inputs: tuple[Tensor, ...]) -> None:
        self._call = self._loop.create_task(self._look(inputs))

    async def _look(self, inputs: tuple[Tensor, ...]) -> None:
        try:
            (changed,) = await self._stream.call(inputs)
        except HostError as error:
            self._answer(error)
        except Exception as error:  # a fault of ours
            self._answer(ModelFailed(f"the logits stage failed: {error}"))
        else:
            self._answer(changed.data)

    def _end(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._stream.close()

    def _tell(self, what: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to read
            self._loop.call_soon_threadsafe(what, *arguments)


def logits_inputs(ids: Sequence[int], logits: Logits) -> tuple[Tensor, ...]:
    """The inputs of one call of a logits stage (sdk/abi/abi-v1.md, "Logits stages").

    Args:
        ids: the answer's tokens since the call before; none at the first.
        logits: FP32 [vocab], of the next token.
    """
    new = np.array(ids, np.int64)
    return Tensor("ids", DataType.INT64, new.shape, new), Tensor("logits", DataType.FP32, logits.shape, logits)
