"""What runs the plugins of loaded models: threads of this process, or workers."""

from collections.abc import Iterator, Mapping
from weakref import WeakValueDictionary

from sandseal_host.sandbox.compiler import Compiler
from sandseal_host.sandbox.engine import SandboxEngine
from sandseal_host.sandbox.pool import StagePool
from sandseal_host.sandbox.statistics import PluginStatistics
from sandseal_host.sandbox.workers.plugin import WorkerPlugin
from sandseal_host.sandbox.workers.stage import WorkerStage
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_signing.stage import StageSpec

StageRunner = StagePool | WorkerStage


class StageRunners:
    """Makes a runner for each stage, with one sandbox engine, and knows those that are in use.

    Args:
        pooling, compiler: see `SandboxEngine`.
        workers: run the plugins; None = threads of this process do.
        threads: of each runner, without workers.
        max_waiting: calls that may wait in each.
    """

    def __init__(
        self,
        *,
        pooling: bool | None,
        compiler: Compiler | None,
        workers: Workers | None,
        threads: int,
        max_waiting: int,
    ) -> None:
        self._engine = SandboxEngine(pooling=pooling if workers is None else False, compiler=compiler)
        self._workers, self._threads, self._max_waiting = workers, threads, max_waiting
        self._known: WeakValueDictionary[tuple[str, int, str], StageRunner] = WeakValueDictionary()

    def make(
        self, model: str, version: int, stage: str, spec: StageSpec, wasm: bytes, assets: Mapping[str, bytes]
    ) -> StageRunner:
        """A runner for a model's stage, which whoever asked for it closes; blocks.

        Raises:
            PluginError: the module cannot be the stage's plugin.
        """
        runner = self._made(spec, f"{model}/{spec.plugin}", wasm, assets)
        self._known[model, version, stage] = runner
        return runner

    def statistics(self) -> Iterator[tuple[Mapping[str, str], PluginStatistics]]:
        """What the plugins did, labelled with model, version and stage."""
        for (model, version, stage), runner in list(self._known.items()):
            yield {"model": model, "version": str(version), "stage": stage}, runner.plugin_statistics()

    def close(self) -> None:
        """Stop the sandbox engine; the runners must be closed before."""
        self._engine.close()

    def _made(self, spec: StageSpec, label: str, wasm: bytes, assets: Mapping[str, bytes]) -> StageRunner:
        if self._workers is None:
            plugin = self._engine.compile(wasm, spec, assets=assets, label=label)
            return StagePool(plugin, self._threads, max_waiting=self._max_waiting)
        code = self._engine.code(wasm, label)  # which is run in workers alone
        sealed = WorkerPlugin(label, spec, wasm, code, assets)
        return WorkerStage(self._workers, sealed, max_waiting=self._max_waiting)
