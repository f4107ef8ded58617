"""From a verified bundle to a model that can serve: the only file where registry, sandbox, runtime and serving meet."""

import asyncio
from contextlib import ExitStack

from sandseal_host.errors import ModelInvalid
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
from sandseal_signing.errors import SandsealError
from sandseal_signing.manifest import Batching, StageSpec

Built = tuple[Session, StageRunner | None, StageRunner | None]
"""A bundle's session, pre stage and post stage."""


class Loader:
    """Builds models out of bundles, on one device and with one sandbox engine.

    Args:
        settings: tighten what bundles are signed for, never widen it.

    Raises:
        DeviceUnavailable, SettingsInvalid: the device that the settings name cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._device = Device.parse(settings.device)
        self._device.check()
        self._engine = SandboxEngine()

    def vet(self, bundle: Bundle) -> None:
        """See that a bundle can be built; blocks.

        Raises:
            ModelInvalid, PluginError, OperatorError: why not.
        """
        for part in self._build(bundle):
            if part is not None:
                part.close()

    async def load(self, model: Model, bundle: Bundle) -> None:
        """Build the bundle off the event loop and let `model` become ready on it.

        Raises:
            SandsealError: it cannot be built; the model says so too.
        """
        model.advance(ModelState.LOADING)
        try:
            session, pre, post = await asyncio.to_thread(self._build, bundle)
        except SandsealError as error:
            model.fail(error.message)
            raise
        model.advance(ModelState.WARMING)
        on_loop = INLINE_BELOW_S if self._device.kind is DeviceKind.CPU else 0.0
        lane = Lane(session, self._schedule(bundle), name=model.name, inline_below_s=on_loop)
        model.serve(ModelParts(session, lane, pre, post, session.statistics().resident_bytes))

    def close(self) -> None:
        """Stop the sandbox engine; the models built here must be unloaded before."""
        self._engine.close()

    def _build(self, bundle: Bundle) -> Built:
        manifest = bundle.manifest
        if manifest.reserved:
            raise ModelInvalid(
                f"bundle.json uses {', '.join(manifest.reserved)}, which this host does not serve yet",
                hint="leave these members out, or use a newer host",
            )
        model = manifest.model
        with ExitStack() as undo:
            session = Session.open(
                model,
                bundle.files[model.file],
                {name: bundle.files[name] for name in model.external_data},
                self._device,
                threads=self._settings.threads,
                max_rows=self._batching(model.batching).max_rows,
            )
            undo.callback(session.close)
            pre = self._stage(manifest.pre, bundle)
            if pre is not None:
                undo.callback(pre.close)
            built = session, pre, self._stage(manifest.post, bundle)
            undo.pop_all()
        return built

    def _stage(self, spec: StageSpec | None, bundle: Bundle) -> StagePool | None:
        if spec is None:
            return None
        assets = {name: bundle.files[name] for name in spec.assets}
        label = f"{bundle.manifest.name}/{spec.plugin}"
        plugin = self._engine.compile(bundle.files[spec.plugin], spec, assets=assets, label=label)
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
