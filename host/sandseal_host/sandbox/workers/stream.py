"""A stream's instance in a sandbox worker."""

from types import TracebackType
from typing import Self

from sandseal_host.errors import InputRefused, NotReady
from sandseal_host.sandbox.abi import FIRST, LAST
from sandseal_host.sandbox.workers.call import Stage
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_host.tensors import Tensor


class WorkerStream:
    """One instance of a stage, as long as one stream, in one worker process; lost with that.

    Made and used on the event loop that the workers were started on, one call after another.

    Args:
        workers: shared with others.
        stage: what is called.
        parameters: the request's, UTF-8 JSON; the same for all calls.
        urgency: as for `WorkerStage.apply`.
    """

    def __init__(self, workers: Workers, stage: Stage, parameters: bytes, urgency: float) -> None:
        self._workers, self._stage, self._parameters, self._urgency = workers, stage, parameters, urgency
        self._stay = workers.new_stay()
        self._next = FIRST
        self._closed = False

    async def call(self, inputs: tuple[Tensor, ...], *, last: bool = False) -> tuple[Tensor, ...]:
        """Call the instance; after an error other than a refusal, and after the last call, it is closed.

        Raises:
            NotReady: it is closed.
            QueueFull: no worker has room for one more stream.
            RequestInvalid, InputRefused, PluginError, ShuttingDown: as `WorkerStage.apply` raises.
        """
        if self._closed:
            raise NotReady(f"this stream of plugin {self._stage.label!r} is closed")
        flags, self._next = self._next | LAST * last, 0
        try:
            outputs = await self._workers.run_stream(
                self._stage, self._stay, inputs, self._parameters, self._urgency, flags
            )
        except InputRefused:
            raise
        except BaseException:
            self.close()
            raise
        if last:
            self.close()
        return outputs

    def close(self) -> None:
        """Let the instance go; what runs is ended."""
        worker, closed, self._closed = self._stay.worker, self._closed, True
        if worker is not None and not closed and not worker.lost.done():
            worker.end(self._stay.number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
