"""Vets bundles, and loads them into models."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandseal_host.errors import ModelUnknown
from sandseal_host.loader.assembly import Assembly
from sandseal_host.loader.built import Built, BuiltDecoder, BuiltPipeline, close
from sandseal_host.loader.tools import STAGE_QUEUES, Tools
from sandseal_host.registry.load_view import Bound
from sandseal_host.runtime.decoder_signature import check_tokens
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.ledger import MemoryLedger
from sandseal_host.runtime.memory import spare_memory
from sandseal_host.runtime.saved_graphs import SavedGraphs
from sandseal_host.runtime.variants import every, fitting
from sandseal_host.sandbox.compiler import Compiler
from sandseal_host.sandbox.runners import StageRunners
from sandseal_host.sandbox.statistics import PluginStatistics
from sandseal_host.sandbox.text import TextFiles
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_host.serving.cache import ModelCache, ResponseCache
from sandseal_host.serving.generation.constraint import LogitsStage
from sandseal_host.serving.generation.lane import GenerationLane
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.lane import INLINE_BELOW_S, Lane
from sandseal_host.serving.lost_sequences import LostSequences
from sandseal_host.serving.members import Find, Member
from sandseal_host.serving.model import Model
from sandseal_host.serving.parts import ModelParts
from sandseal_host.serving.pipeline import Pipeline, StepPlugins
from sandseal_host.serving.rules import ServingRules
from sandseal_host.serving.sequences import Sequences
from sandseal_host.settings import Settings
from sandseal_host.stages import LoadStage, LoadStages, apart
from sandseal_signing.manifest import Manifest

_TRIAL = GenerationSettings(slots=1, context=64)  # what a decoder is vetted with


class Loader:
    """Builds models out of bundles, on the host's devices and with one sandbox engine; `ledger` has what they hold.

    Args:
        settings: tighten what bundles are signed for, never widen it.
        device: used instead of those that the settings name.
        pooling, compiler, workers: see `StageRunners`.
        rules: how models are batched and queued; None = as the settings alone say.
        saved: optimised graphs are kept there; None = nowhere.
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
        saved: SavedGraphs | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        devices = Devices([device]) if device else Devices.parse(settings.device)
        devices.check()
        self.ledger = MemoryLedger(devices, settings.memory_watermark)
        self.cache = ResponseCache(settings.cache_mib << 20) if settings.cache_mib else None
        self._lost = LostSequences()
        runners = StageRunners(
            pooling=pooling,
            compiler=compiler,
            workers=workers,
            threads=settings.plugin_threads,
            max_waiting=STAGE_QUEUES * settings.max_queue,
        )
        self.find: Find = _nobody
        """Finds the models that pipelines name; set by whoever knows them."""
        self._tools = Tools(settings, rules or ServingRules(settings), devices, self.ledger, runners, saved, progress)

    def vet(self, manifest: Manifest, files: Mapping[str, bytes], folder: Path | None = None) -> None:
        """See that a bundle can be built; blocks. It may crash or hang: `vetting` calls it in a process of its own.

        Args:
            files: those that the manifest names, by name.
            folder: holds the weights that are not among them.

        Raises:
            ModelInvalid, PluginError, OperatorError: why not.
        """
        devices, spec = self._tools.devices, manifest.generation
        fitting(manifest.model, devices.kind)
        assembly = Assembly(self._tools, manifest, files, folder, devices.choose())
        for variant in every(manifest.model):  # those for other devices too: the operator may give the host another one
            if spec is None:
                close(assembly.build((variant,)))
                continue
            with assembly.decoder(spec, variant, _TRIAL) as decoder:
                check_tokens(spec, decoder.vocab)
        if spec is not None:
            from sandseal_host.sandbox.text.texts import Texts  # reads it here, where only a vetting child should

            texts = Texts(TextFiles.of(spec, files))
            logits = assembly.logits(spec, texts.tokens, texts.special)
            if logits is not None:
                logits.close()

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
                close(work.result())
            bundle.close()

        stages.enter(LoadStage.LOADING)
        try:
            built = await stages.within(asyncio.ensure_future(self._build_in_room(bundle, stages)), late)
        except BaseException:
            if stages.overdue is None:
                await asyncio.to_thread(bundle.close)
            raise
        try:
            await admit()
        except BaseException:
            await asyncio.to_thread(close, built)
            await asyncio.to_thread(bundle.close)
            raise
        model.serve(self._parts(model.bundle_id, bundle, built))

    def _parts(self, bundle_id: str, bundle: Bound, built: Built) -> ModelParts:
        manifest, tools = bundle.manifest, self._tools
        if isinstance(built, BuiltDecoder):
            decoder, text, logits = built
            bounds = tools.rules.generation(manifest.name, decoder.context)
            stage = LogitsStage(logits) if logits else None
            on_cpu = tools.devices.kind is DeviceKind.CPU  # there, what is promised to models that load counts as well
            spare = partial(tools.ledger.spare, 1) if on_cpu else partial(spare_memory, tools.settings.memory_watermark)
            generating = GenerationLane(decoder, text.vocabulary, bounds, name=manifest.name, logits=stage, spare=spare)
            return ModelParts(
                decoder, generating, resident=decoder.resident, bundle=bundle.view, text=text, logits=logits
            )
        if isinstance(built, BuiltPipeline):
            return self._pipeline(manifest, built.plugins)
        runner, pre, post = built
        on_loop = INLINE_BELOW_S if tools.devices.kind is DeviceKind.CPU else 0.0
        settings = tools.rules.of(manifest)
        settings = replace(settings, instances=max(settings.instances, tools.devices.runs_at_once) * len(runner))
        lane = Lane(runner, settings, name=manifest.name, inline_below_s=on_loop, settle=runner.settle)
        precision = runner.precision if manifest.model.variants else None
        return ModelParts(
            runner, lane, pre, post, runner.resident, bundle.view, precision,
            cache=self._model_cache(bundle_id, manifest, precision), sequences=self._sequences(manifest),
        )  # fmt: skip

    def _pipeline(self, manifest: Manifest, plugins: StepPlugins) -> ModelParts:
        assert manifest.pipeline is not None  # noqa: S101  # of nothing else are there such parts
        settings = self._tools.rules.of(manifest)
        return ModelParts(plugins, Pipeline(manifest.pipeline, plugins, self.find, settings, name=manifest.name))

    def _model_cache(self, bundle_id: str, manifest: Manifest, precision: str | None) -> ModelCache | None:
        if self.cache is None or not manifest.model.cache:
            return None
        return ModelCache(self.cache, bundle_id, precision or "")

    def _sequences(self, manifest: Manifest) -> Sequences | None:
        settings = self._tools.settings
        if not manifest.model.state:
            return None
        return Sequences(
            manifest.name,
            manifest.model,
            idle_s=settings.sequence_idle_s,
            most=settings.max_sequences,
            most_bytes=settings.sequence_mib << 20,
            lost=self._lost,
        )

    def plugin_statistics(self) -> Iterator[tuple[Mapping[str, str], PluginStatistics]]:
        """See `StageRunners.statistics`."""
        return self._tools.runners.statistics()

    def close(self) -> None:
        """Stop the sandbox engine; the models built here must be unloaded before."""
        self._tools.runners.close()

    async def _build_in_room(self, bundle: Bound, stages: LoadStages) -> Built:
        manifest, tools = bundle.manifest, self._tools
        if manifest.pipeline is not None:  # which takes nothing of a device
            return await apart(partial(Assembly(tools, manifest, bundle.files, None, (), stages.enter).build, ()))
        variants = fitting(manifest.model, tools.devices.kind, tools.rules.precision(manifest.name))
        devices = await asyncio.to_thread(tools.devices.choose, tools.settings.replicas)
        assembly = Assembly(
            tools, manifest, bundle.files, bundle.folder, devices, stages.enter, bundle_id=bundle.id.hex
        )
        need = await asyncio.to_thread(assembly.need, variants[0])
        async with self.ledger.room(devices, manifest.name, need):
            return await apart(partial(assembly.build, variants))


def _nobody(name: str, bundle_id: str) -> Member:
    raise ModelUnknown(f"there is no model {name!r}", model=name)
