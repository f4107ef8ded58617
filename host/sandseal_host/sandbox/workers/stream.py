"""A stream's instance in a sandbox worker."""

from sandseal_host.sandbox.stream import Stream
from sandseal_host.sandbox.workers.call import Stage
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_host.tensors import Tensor


class WorkerStream(Stream):
    """One in one worker process, lost with that; for the event loop that the workers were started on.

    Args:
        workers: shared with others.
        stage: what is called.
        parameters, target_s, tenant: see `WorkerStage.stream`.
    """

    def __init__(self, workers: Workers, stage: Stage, parameters: bytes, target_s: float, tenant: str) -> None:
        super().__init__(f"this stream of plugin {stage.label!r}", target_s)
        self._workers, self._stage, self._parameters = workers, stage, parameters
        self._stay = workers.new_stay(tenant)

    async def _call(self, inputs: tuple[Tensor, ...], urgency: float, flags: int) -> tuple[Tensor, ...]:
        return await self._workers.run_stream(self._stage, self._stay, inputs, self._parameters, urgency, flags)

    def close(self) -> None:
        """Let the instance go; what runs is ended."""
        worker, closed, self._closed = self._stay.worker, self._closed, True
        if worker is not None and not closed and not worker.lost.done():
            worker.end(self._stay.number)
