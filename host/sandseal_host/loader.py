"""From a verified bundle to a model that can serve: the only file where registry, sandbox, runtime and serving meet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sandseal_host.errors import ModelInvalid, OperatorError
from sandseal_host.registry.load_view import Bound
from sandseal_host.runtime.decoder import Decoder
from sandseal_host.runtime.decoder_signature import DecoderSignature, check_tokens
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.ledger import MemoryLedger
from sandseal_host.runtime.memory import spare_memory
from sandseal_host.runtime.replicas import Replicas
from sandseal_host.runtime.session import Session
from sandseal_host.runtime.variants import every, file_bytes, fitting
from sandseal_host.sandbox.compiler import Compiler
from sandseal_host.sandbox.logits import logits_assets
from sandseal_host.sandbox.runners import StageRunner, StageRunners
from sandseal_host.sandbox.statistics import PluginStatistics
from sandseal_host.sandbox.text import TextFiles, TextLimits, TextWorker
from sandseal_host.sandbox.workers.workers import Workers
from sandseal_host.serving.cache import ModelCache, ResponseCache
from sandseal_host.serving.generation.constraint import LogitsStage
from sandseal_host.serving.generation.lane import GenerationLane
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.generation.text import Text
from sandseal_host.serving.guarded_stage import GuardedStage
from sandseal_host.serving.lane import INLINE_BELOW_S, Lane
from sandseal_host.serving.model import Model
from sandseal_host.serving.parts import ModelParts
from sandseal_host.serving.rules import ServingRules
from sandseal_host.serving.sequences import Sequences
from sandseal_host.settings import Settings
from sandseal_host.stages import LoadStage, LoadStages, apart
from sandseal_signing.generation import GenerationSpec
from sandseal_signing.manifest import Manifest
from sandseal_signing.stage import StageSpec
from sandseal_signing.variants import VariantSpec

_log = logging.getLogger(__name__)
_STAGE_QUEUES = 4  # that may wait in a plugin: one for each class, one for tenants with less than their share

_TRIAL = GenerationSettings(slots=1, context=64)  # what a decoder is vetted with


class BuiltModel(NamedTuple):
    """A bundle's sessions and its stages."""

    runner: Replicas
    pre: GuardedStage | None
    post: GuardedStage | None


class BuiltDecoder(NamedTuple):
    """A bundle that generates text."""

    decoder: Decoder
    text: Text
    logits: StageRunner | None


Built = BuiltModel | BuiltDecoder


class Loader:
    """Builds models out of bundles, on the host's devices and with one sandbox engine; `ledger` has what they hold.

    Args:
        settings: tighten what bundles are signed for, never widen it.
        device: used instead of those that the settings name.
        pooling, compiler, workers: see `StageRunners`.
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
        self.cache = ResponseCache(settings.cache_mib << 20) if settings.cache_mib else None
        self._runners = StageRunners(
            pooling=pooling,
            compiler=compiler,
            workers=workers,
            threads=settings.plugin_threads,
            max_waiting=_STAGE_QUEUES * settings.max_queue,
        )
        self._progress = progress

    def vet(self, manifest: Manifest, files: Mapping[str, bytes], folder: Path | None = None) -> None:
        """See that a bundle can be built; blocks. It may crash or hang: `vetting` calls it in a process of its own.

        Args:
            files: those that the manifest names, by name.
            folder: holds the weights that are not among them.

        Raises:
            ModelInvalid, PluginError, OperatorError: why not.
        """
        devices = self._devices.choose()
        fitting(manifest.model, self._devices.kind)
        for variant in every(manifest.model):  # those for other devices too: the operator may give the host another one
            if manifest.generation is None:
                _close(self._build(manifest, files, folder, devices, (variant,)))
            else:
                spec = manifest.generation
                with self._decoder(manifest, spec, variant, files, folder, devices[0], _TRIAL) as decoder:
                    check_tokens(spec, decoder.vocab)
        if manifest.generation is not None:
            from sandseal_host.sandbox.text.texts import Texts  # reads it here, where only a vetting child should

            texts = Texts(TextFiles.of(manifest.generation, files))
            logits = self._logits(manifest, manifest.generation, texts.tokens, texts.special, files)
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
                _close(work.result())
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
            await asyncio.to_thread(_close, built)
            await asyncio.to_thread(bundle.close)
            raise
        model.serve(self._parts(model.bundle_id, bundle, built))

    def _parts(self, bundle_id: str, bundle: Bound, built: Built) -> ModelParts:
        manifest = bundle.manifest
        if isinstance(built, BuiltDecoder):
            decoder, text, logits = built
            bounds = self._rules.generation(manifest.name, decoder.context)
            stage = LogitsStage(logits) if logits else None
            spare = partial(spare_memory, self._settings.memory_watermark)
            generating = GenerationLane(decoder, text.vocabulary, bounds, name=manifest.name, logits=stage, spare=spare)
            return ModelParts(
                decoder, generating, resident=decoder.resident, bundle=bundle.view, text=text, logits=logits
            )
        runner, pre, post = built
        on_loop = INLINE_BELOW_S if self._devices.kind is DeviceKind.CPU else 0.0
        settings = self._rules.of(manifest)
        settings = replace(settings, instances=max(settings.instances, self._devices.runs_at_once) * len(runner))
        lane = Lane(runner, settings, name=manifest.name, inline_below_s=on_loop, settle=runner.settle)
        precision = runner.precision if manifest.model.variants else None
        return ModelParts(
            runner, lane, pre, post, runner.resident, bundle.view, precision,
            cache=self._model_cache(bundle_id, manifest, precision), sequences=self._sequences(manifest),
        )  # fmt: skip

    def _model_cache(self, bundle_id: str, manifest: Manifest, precision: str | None) -> ModelCache | None:
        if self.cache is None or not manifest.model.cache:
            return None
        return ModelCache(self.cache, bundle_id, precision or "")

    def _sequences(self, manifest: Manifest) -> Sequences | None:
        settings = self._settings
        if not manifest.model.state:
            return None
        return Sequences(manifest.name, manifest.model, idle_s=settings.sequence_idle_s, most=settings.max_sequences)

    def plugin_statistics(self) -> Iterator[tuple[Mapping[str, str], PluginStatistics]]:
        """See `StageRunners.statistics`."""
        return self._runners.statistics()

    def close(self) -> None:
        """Stop the sandbox engine; the models built here must be unloaded before."""
        self._runners.close()

    async def _build_in_room(self, bundle: Bound, stages: LoadStages) -> Built:
        manifest = bundle.manifest
        variants = fitting(manifest.model, self._devices.kind, self._rules.precision(manifest.name))
        need = await asyncio.to_thread(file_bytes, variants[0], bundle.files, bundle.folder)
        if manifest.generation is not None:
            need += await asyncio.to_thread(self._slots, manifest, manifest.generation, variants[0], bundle.files)
        devices = await asyncio.to_thread(self._devices.choose, self._settings.replicas)
        async with self.ledger.room(devices, manifest.name, need):
            return await apart(
                lambda: self._build(manifest, bundle.files, bundle.folder, devices, variants, enter=stages.enter)
            )

    def _build(
        self,
        manifest: Manifest,
        files: Mapping[str, bytes],
        folder: Path | None,
        devices: Sequence[Device],
        variants: Sequence[VariantSpec],
        *,
        enter: Callable[..., None] = lambda *_: None,
    ) -> Built:
        if manifest.reserved:
            raise ModelInvalid(
                f"bundle.json uses {', '.join(manifest.reserved)}, which this host does not serve yet",
                hint="leave these members out, or use a newer host",
            )
        if manifest.generation is not None:
            return self._build_decoder(manifest, manifest.generation, variants[0], files, folder, devices[0], enter)
        with ExitStack() as undo:
            replicas = self._replicas(manifest, variants, files, folder, devices, enter)
            undo.callback(replicas.close)
            enter(LoadStage.LOADING)
            pre = self._stage(manifest, "pre", manifest.pre, files)
            if pre is not None:
                undo.callback(pre.close)
            built = BuiltModel(replicas, pre, self._stage(manifest, "post", manifest.post, files))
            undo.pop_all()
        return built

    def _replicas(
        self,
        manifest: Manifest,
        variants: Sequence[VariantSpec],
        files: Mapping[str, bytes],
        folder: Path | None,
        devices: Sequence[Device],
        enter: Callable[..., None],
    ) -> Replicas:
        """The first of the variants that loads on all of the devices."""
        *preferred, last = variants
        for variant in preferred:
            try:
                return self._open(manifest, variant, files, folder, devices, enter)
            except (ModelInvalid, OperatorError) as error:
                _log.warning("%s version %d: %s does not load, the next variant is tried: %s",
                             manifest.name, manifest.version, variant.file, error)  # fmt: skip
        return self._open(manifest, last, files, folder, devices, enter)

    def _open(
        self,
        manifest: Manifest,
        variant: VariantSpec,
        files: Mapping[str, bytes],
        folder: Path | None,
        devices: Sequence[Device],
        enter: Callable[..., None],
    ) -> Replicas:
        self._progress(variant.file)
        with ExitStack() as undo:
            sessions = [
                undo.enter_context(self._session(manifest, variant, files, folder, on, enter)) for on in devices
            ]
            undo.pop_all()
        return Replicas(sessions, variant.precision)

    def _session(
        self,
        manifest: Manifest,
        variant: VariantSpec,
        files: Mapping[str, bytes],
        folder: Path | None,
        device: Device,
        enter: Callable[..., None],
    ) -> Session:
        model = manifest.model.as_variant(variant)
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

    def _build_decoder(
        self,
        manifest: Manifest,
        spec: GenerationSpec,
        variant: VariantSpec,
        files: Mapping[str, bytes],
        folder: Path | None,
        device: Device,
        enter: Callable[..., None],
    ) -> BuiltDecoder:
        settings = self._rules.generation(manifest.name, spec.context)
        with ExitStack() as undo:
            decoder = self._decoder(manifest, spec, variant, files, folder, device, settings, enter)
            undo.callback(decoder.close)
            enter(LoadStage.LOADING)
            limits = TextLimits(memory_mib=self._settings.plugin_memory_mib)
            texts = undo.enter_context(TextWorker(manifest.name, TextFiles.of(spec, files), limits))
            logits = self._logits(manifest, spec, texts.tokens, texts.special, files)
            undo.pop_all()
        return BuiltDecoder(decoder, Text(texts, spec.add_bos), logits)

    def _decoder(
        self,
        manifest: Manifest,
        spec: GenerationSpec,
        variant: VariantSpec,
        files: Mapping[str, bytes],
        folder: Path | None,
        device: Device,
        settings: GenerationSettings,
        enter: Callable[..., None] = lambda *_: None,
    ) -> Decoder:
        self._progress(variant.file)
        model = manifest.model.as_variant(variant)
        decoder = Decoder.open(
            model,
            files[model.file],
            {name: files[name] for name in model.external_data if folder is None},
            device,
            slots=settings.slots + 1,  # one for prompts
            context=min(settings.context, spec.context),
            folder=folder,
            threads=self._settings.threads,
            warming=lambda handle: enter(LoadStage.WARMING, partial(setattr, handle, "terminate", True)),
        )
        self.ledger.enter(decoder, (manifest.name, manifest.version))
        return decoder

    def _slots(self, manifest: Manifest, spec: GenerationSpec, variant: VariantSpec, files: Mapping[str, bytes]) -> int:
        """Bytes of a decoder's slots."""
        settings = self._rules.generation(manifest.name, spec.context)
        signature = DecoderSignature.read(manifest.model.as_variant(variant), files[variant.file])
        return (settings.slots + 1) * signature.slot_bytes(settings.context)

    def _logits(
        self,
        manifest: Manifest,
        spec: GenerationSpec,
        tokens: Sequence[bytes],
        special: Collection[int],
        files: Mapping[str, bytes],
    ) -> StageRunner | None:
        if manifest.logits is None:
            return None
        made = logits_assets(tokens, special, spec.stop_ids)
        return self._runner(manifest, "logits", manifest.logits, files, made)

    def _stage(
        self, manifest: Manifest, stage: str, spec: StageSpec | None, files: Mapping[str, bytes]
    ) -> GuardedStage | None:
        return None if spec is None else GuardedStage(self._runner(manifest, stage, spec, files, {}), spec)

    def _runner(
        self, manifest: Manifest, stage: str, spec: StageSpec, files: Mapping[str, bytes], made: Mapping[str, bytes]
    ) -> StageRunner:
        """What runs a stage's plugin, which can read what it lists, and what is made for it."""
        self._progress(spec.plugin)
        assets = {name: files[name] for name in spec.assets} | {**made}
        return self._runners.make(manifest.name, manifest.version, stage, spec, files[spec.plugin], assets)


def _close(built: Built) -> None:
    for part in built:
        if part is not None:
            part.close()
