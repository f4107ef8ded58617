"""A stage that runs in sandbox workers."""

from sandseal_host.sandbox.statistics import PluginStatistics
from sandseal_host.sandbox.workers.plugin import WorkerPlugin
from sandseal_host.sandbox.workers.stream import WorkerStream
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_host.tensors import Tensor


class WorkerStage:
    """Runs a plugin's calls in worker processes; what serving calls a `StageRunner`. Blocks until it was tried.

    Args:
        workers: shared with other stages.
        plugin: what runs there.
        max_waiting: calls that may wait; more are refused.

    Raises:
        PluginError: as `Workers.open` raises.
    """

    def __init__(self, workers: Workers, plugin: WorkerPlugin, *, max_waiting: int = 1024) -> None:
        self._workers = workers
        self._stage = workers.open(plugin, max_waiting)

    async def apply(
        self, inputs: tuple[Tensor, ...], parameters: bytes, urgency: float, deadline: float
    ) -> tuple[Tensor, ...]:
        """Run the stage on one request's tensors; on the event loop that the workers were started on.

        Args:
            inputs: in the order of the stage's spec.
            parameters: the request's parameters, UTF-8 JSON.
            urgency: virtual deadline on the monotonic clock; the earliest is handed over first.
            deadline: seconds on the monotonic clock after which the call is not handed over.

        Raises:
            RequestInvalid: the inputs are not what the spec says.
            QueueFull: `max_waiting` calls wait already.
            DeadlineExpired: not handed over in time.
            ShuttingDown: the stage or the workers are closed.
            InputRefused: the plugin refuses the input.
            PluginError: it trapped, ran too long, returned nonsense, or was lost with its worker again and again.
        """
        return await self._workers.run(self._stage, inputs, parameters, urgency, deadline)

    def stream(self, parameters: bytes, target_s: float, tenant: str) -> WorkerStream:
        """An instance for one stream, in one of the workers; see `WorkerStream`.

        Args:
            parameters: the request's, UTF-8 JSON; the same for all calls.
            target_s: seconds from a call's arrival to its virtual deadline.
            tenant: whose stream it is; none has more than three quarters of all.
        """
        return WorkerStream(self._workers, self._stage, parameters, target_s, tenant)

    def plugin_statistics(self) -> PluginStatistics:
        """Counts since it was made."""
        return self._stage.tally.statistics(self._stage.log)

    def close(self) -> None:
        """Refuse what waits, let running calls end within their limits, and drop the plugin; blocks."""
        self._workers.retire(self._stage)
