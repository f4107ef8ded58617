"""From a verified bundle to a model that can serve: the only file where registry, sandbox, runtime and serving meet."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from sandseal_host.errors import ModelInvalid
from sandseal_host.registry.load_view import Bound
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.session import Session
from sandseal_host.sandbox.engine import SandboxEngine
from sandseal_host.sandbox.pool import StagePool
from sandseal_host.serving.lane import INLINE_BELOW_S, Lane
from sandseal_host.serving.model import Model, ModelParts, ModelState
from sandseal_host.serving.ports import StageRunner
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.settings import Settings
from sandseal_signing.bundle import Bundle
from sandseal_signing.errors import SandsealError, TrustError
from sandseal_signing.manifest import Batching, Manifest, StageSpec

Built = tuple[Session, StageRunner | None, StageRunner | None]
"""A bundle's session, pre stage and post stage."""


class Loader:
    """Builds models out of bundles, on one device and with one sandbox engine.

    Args:
        settings: tighten what bundles are signed for, never widen it.
        device: the one that the settings name, when the caller has it.
        pooling: see `SandboxEngine`.
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
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._device = device or Device.parse(settings.device)
        self._device.check()
        self._engine = SandboxEngine(pooling=pooling)
        self._progress = progress

    def vet(self, manifest: Manifest, files: Mapping[str, bytes], folder: Path | None = None) -> None:
        """See that a bundle can be built; blocks. It may crash or hang: `vetting` calls it in a process of its own.

        Args:
            files: those that the manifest names, by name.
            folder: holds the weights that are not among them.

        Raises:
            ModelInvalid, PluginError, OperatorError: why not.
        """
        for part in self._build(manifest, files, folder):
            if part is not None:
                part.close()

    async def load(self, model: Model, bundle: Bound, admit: Callable[[], Awaitable[None]]) -> None:
        """Build the bundle off the event loop and let `model` become ready on it.

        Args:
            bundle: the model closes its view once it is unloaded; the caller, where the load fails.
            admit: asked when everything is built; the model is ready in the same turn of the loop, or never.

        Raises:
            SandsealError: it cannot be built, or is not admitted; the model says so too.
        """
        model.advance(ModelState.LOADING)
        try:
            session, pre, post = await asyncio.to_thread(self._build, bundle.manifest, bundle.files, bundle.folder)
        except SandsealError as error:
            model.fail(error.message)
            raise
        model.advance(ModelState.WARMING)
        try:
            await admit()
        except SandsealError as error:
            for part in (session, pre, post):
                if part is not None:
                    await asyncio.to_thread(part.close)
            if isinstance(error, TrustError):
                model.revoke(error.message)
            else:
                model.fail(error.message)
            raise
        on_loop = INLINE_BELOW_S if self._device.kind is DeviceKind.CPU else 0.0
        lane = Lane(session, self._schedule(bundle), name=model.name, inline_below_s=on_loop)
        model.serve(ModelParts(session, lane, pre, post, session.statistics().resident_bytes, bundle.view))

    def close(self) -> None:
        """Stop the sandbox engine; the models built here must be unloaded before."""
        self._engine.close()

    def _build(self, manifest: Manifest, files: Mapping[str, bytes], folder: Path | None) -> Built:
        if manifest.reserved:
            raise ModelInvalid(
                f"bundle.json uses {', '.join(manifest.reserved)}, which this host does not serve yet",
                hint="leave these members out, or use a newer host",
            )
        model = manifest.model
        self._progress(model.file)
        with ExitStack() as undo:
            session = Session.open(
                model,
                files[model.file],
                {name: files[name] for name in model.external_data if folder is None},
                self._device,
                folder=folder,
                threads=self._settings.threads,
                max_rows=self._batching(model.batching).max_rows,
            )
            undo.callback(session.close)
            pre = self._stage(manifest.name, manifest.pre, files)
            if pre is not None:
                undo.callback(pre.close)
            built = session, pre, self._stage(manifest.name, manifest.post, files)
            undo.pop_all()
        return built

    def _stage(self, model: str, spec: StageSpec | None, files: Mapping[str, bytes]) -> StagePool | None:
        if spec is None:
            return None
        self._progress(spec.plugin)
        assets = {name: files[name] for name in spec.assets}
        plugin = self._engine.compile(files[spec.plugin], spec, assets=assets, label=f"{model}/{spec.plugin}")
        return StagePool(plugin, self._settings.plugin_threads, max_waiting=self._settings.max_queue)

    def _batching(self, signed: Batching) -> Batching:
        """The signed batching, tightened by the operator's settings."""
        rows, delay = self._settings.max_rows, self._settings.max_delay_us
        return Batching(
            signed.max_rows if rows is None else min(rows, signed.max_rows),
            signed.max_delay_us if delay is None else min(delay, signed.max_delay_us),
        )

    def _schedule(self, bundle: Bundle) -> SchedulerSettings:
        batching = self._batching(bundle.manifest.model.batching)
        return SchedulerSettings(
            max_rows=batching.max_rows,
            max_delay_s=batching.max_delay_us / 1e6,
            instances=self._settings.instances,
            max_requests=self._settings.max_queue,
        )
