"""From a verified bundle to a model that can serve: the only file where registry, sandbox, runtime and serving meet."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from sandseal_host.errors import ModelInvalid
from sandseal_host.registry.load_view import Bound
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.ledger import MemoryLedger
from sandseal_host.runtime.replicas import Replicas
from sandseal_host.runtime.session import Session
from sandseal_host.sandbox.compiler import Compiler
from sandseal_host.sandbox.engine import SandboxEngine
from sandseal_host.sandbox.pool import StagePool
from sandseal_host.sandbox.statistics import PluginStatistics
from sandseal_host.sandbox.workers.plugin import WorkerPlugin
from sandseal_host.sandbox.workers.stage import WorkerStage
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_host.serving.guarded_stage import GuardedStage
from sandseal_host.serving.lane import INLINE_BELOW_S, Lane
from sandseal_host.serving.model import Model, ModelParts
from sandseal_host.serving.rules import ServingRules
from sandseal_host.settings import Settings
from sandseal_host.stages import LoadStage, LoadStages, apart
from sandseal_signing.manifest import Manifest, StageSpec

_STAGE_QUEUES = 4  # that may wait in a plugin: one for each class, one for tenants with less than their share

Built = tuple[Replicas, GuardedStage | None, GuardedStage | None]
"""A bundle's sessions, pre stage and post stage."""


class Loader:
    """Builds models out of bundles, on the host's devices and with one sandbox engine; `ledger` has what they hold.

    Args:
        settings: tighten what bundles are signed for, never widen it.
        device: used instead of those that the settings name.
        pooling, compiler: see `SandboxEngine`.
        workers: run the plugins; None = threads of this process do.
        rules: how models are batched and queued; None = as the settings alone say.
        progress: called with the name of each model file and plugin before it is looked at.

    Raises:
        DeviceUnavailable, SettingsInvalid: the device that the settings name cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        device: Device | None = None,
        pooling: bool | None = None,
        compiler: Compiler | None = None,
        workers: Workers | None = None,
        rules: ServingRules | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._rules = rules or ServingRules(settings)
        self._devices = Devices([device]) if device else Devices.parse(settings.device)
        self._devices.check()
        self.ledger = MemoryLedger(self._devices, settings.memory_watermark)
        self._workers = workers
        self._engine = SandboxEngine(pooling=pooling if workers is None else False, compiler=compiler)
        self._runners: WeakValueDictionary[tuple[str, str, str], StagePool | WorkerStage] = WeakValueDictionary()
        self._progress = progress

    def vet(self, manifest: Manifest, files: Mapping[str, bytes], folder: Path | None = None) -> None:
        """See that a bundle can be built; blocks. It may crash or hang: `vetting` calls it in a process of its own.

        Args:
            files: those that the manifest names, by name.
            folder: holds the weights that are not among them.

        Raises:
            ModelInvalid, PluginError, OperatorError: why not.
        """
        _close(self._build(manifest, files, folder, self._devices.choose()))

    async def load(self, model: Model, bundle: Bound, admit: Callable[[], Awaitable[None]], stages: LoadStages) -> None:
        """Build the bundle off the event loop and let `model` become ready on it; idle models may have to make room.

        Args:
            bundle: its view is closed once the model is unloaded, or where the load fails.
            admit: asked when everything is built; the model is ready in the same turn of the loop, or never.
            stages: the load's clock. What was given up keeps its promise of memory until it ends.

        Raises:
            SandsealError: it cannot be built in time, or is not admitted.
        """

        def late(work: "asyncio.Future[Built]") -> None:
            if not work.cancelled() and work.exception() is None:
                _close(work.result())
            bundle.close()

        stages.enter(LoadStage.LOADING)
        try:
            runner, pre, post = await stages.within(asyncio.ensure_future(self._build_in_room(bundle, stages)), late)
        except BaseException:
            if stages.overdue is None:
                await asyncio.to_thread(bundle.close)
            raise
        try:
            await admit()
        except BaseException:
            await asyncio.to_thread(_close, (runner, pre, post))
            await asyncio.to_thread(bundle.close)
            raise
        on_loop = INLINE_BELOW_S if self._devices.kind is DeviceKind.CPU else 0.0
        settings = self._rules.of(bundle.manifest)
        settings = replace(settings, instances=max(settings.instances, self._devices.runs_at_once) * len(runner))
        lane = Lane(runner, settings, name=model.name, inline_below_s=on_loop, settle=runner.settle)
        model.serve(ModelParts(runner, lane, pre, post, runner.resident, bundle.view))

    def plugin_statistics(self) -> Iterator[tuple[Mapping[str, str], PluginStatistics]]:
        """What the plugins of loaded models did, labelled with model, version and stage."""
        for (model, version, stage), runner in list(self._runners.items()):
            yield {"model": model, "version": version, "stage": stage}, runner.plugin_statistics()

    def close(self) -> None:
        """Stop the sandbox engine; the models built here must be unloaded before."""
        self._engine.close()

    async def _build_in_room(self, bundle: Bound, stages: LoadStages) -> Built:
        manifest = bundle.manifest
        need = await asyncio.to_thread(_weights, manifest, bundle.files, bundle.folder)
        devices = await asyncio.to_thread(self._devices.choose, self._settings.replicas)
        async with self.ledger.room(devices, manifest.name, need):
            return await apart(lambda: self._build(manifest, bundle.files, bundle.folder, devices, enter=stages.enter))

    def _build(
        self,
        manifest: Manifest,
        files: Mapping[str, bytes],
        folder: Path | None,
        devices: Sequence[Device],
        *,
        enter: Callable[..., None] = lambda *_: None,
    ) -> Built:
        if manifest.reserved:
            raise ModelInvalid(
                f"bundle.json uses {', '.join(manifest.reserved)}, which this host does not serve yet",
                hint="leave these members out, or use a newer host",
            )
        model = manifest.model
        self._progress(model.file)
        with ExitStack() as undo:
            sessions = [undo.enter_context(self._session(manifest, files, folder, on, enter)) for on in devices]
            enter(LoadStage.LOADING)
            pre = self._stage(manifest, "pre", manifest.pre, files)
            if pre is not None:
                undo.callback(pre.close)
            built = Replicas(sessions), pre, self._stage(manifest, "post", manifest.post, files)
            undo.pop_all()
        return built

    def _session(
        self,
        manifest: Manifest,
        files: Mapping[str, bytes],
        folder: Path | None,
        device: Device,
        enter: Callable[..., None],
    ) -> Session:
        model = manifest.model
        enter(LoadStage.LOADING)
        session = Session.open(
            model,
            files[model.file],
            {name: files[name] for name in model.external_data if folder is None},
            device,
            folder=folder,
            threads=self._settings.threads,
            max_rows=self._rules.of(manifest).max_rows,
            graphs=self._settings.cuda_graphs,
            warming=lambda handle: enter(LoadStage.WARMING, partial(setattr, handle, "terminate", True)),
        )
        self.ledger.enter(session, (manifest.name, manifest.version))
        return session

    def _stage(
        self, manifest: Manifest, stage: str, spec: StageSpec | None, files: Mapping[str, bytes]
    ) -> GuardedStage | None:
        if spec is None:
            return None
        self._progress(spec.plugin)
        runner = self._runner(spec, f"{manifest.name}/{spec.plugin}", files)
        self._runners[manifest.name, str(manifest.version), stage] = runner
        return GuardedStage(runner, spec)

    def _runner(self, spec: StageSpec, label: str, files: Mapping[str, bytes]) -> StagePool | WorkerStage:
        wasm, assets = files[spec.plugin], {name: files[name] for name in spec.assets}
        if self._workers is None:
            plugin = self._engine.compile(wasm, spec, assets=assets, label=label)
            return StagePool(
                plugin, self._settings.plugin_threads, max_waiting=_STAGE_QUEUES * self._settings.max_queue
            )
        code = self._engine.code(wasm, label)  # which is run in workers alone
        sealed = WorkerPlugin(label, spec, wasm, code, assets)
        return WorkerStage(self._workers, sealed, max_waiting=_STAGE_QUEUES * self._settings.max_queue)


def _close(built: Built) -> None:
    for part in built:
        if part is not None:
            part.close()


def _weights(manifest: Manifest, files: Mapping[str, bytes], folder: Path | None) -> int:
    """Bytes that a model takes at least: those of its graph and weights."""
    model = manifest.model
    outside = [(folder / name).stat().st_size if folder else len(files[name]) for name in model.external_data]
    return len(files[model.file]) + sum(outside)
