"""One bundle's sessions and stages, as they are built."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sandseal_host.errors import ModelInvalid, OperatorError
from sandseal_host.loader.built import Built, BuiltDecoder, BuiltModel, BuiltPipeline
from sandseal_host.loader.tools import STAGE_QUEUES, Tools
from sandseal_host.runtime.decoder import Decoder
from sandseal_host.runtime.decoder_signature import DecoderSignature
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.replicas import Replicas
from sandseal_host.runtime.session import Session
from sandseal_host.sandbox.logits import logits_assets
from sandseal_host.sandbox.runners import StageRunner
from sandseal_host.sandbox.text import TextFiles, TextLimits, TextWorker
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.generation.text import Text
from sandseal_host.serving.generation.tool_calls import call_form
from sandseal_host.serving.guarded_stage import GuardedStage
from sandseal_host.serving.pipeline import StepPlugins
from sandseal_host.stages import LoadStage
from sandseal_signing.generation import GenerationSpec
from sandseal_signing.manifest import Manifest
from sandseal_signing.pipeline import PipelineSpec
from sandseal_signing.stage import StageSpec
from sandseal_signing.variants import VariantSpec

_log = logging.getLogger(__name__)


class Assembly:
    """Builds one bundle; everything here blocks.

    Args:
        tools: what it is built with.
        manifest: the bundle's.
        files: those that the manifest names, by name.
        folder: holds the weights that are not among them; None where all are.
        devices: one session on each of them; a decoder on the first.
        enter: told of each stage of loading that begins, and of what ends it; see `LoadStages.enter`.
        bundle_id: of a bundle that was accepted, whose optimised graphs are kept; empty for none.

    Raises:
        ModelInvalid: the manifest says something that this host does not know.
    """

    def __init__(
        self,
        tools: Tools,
        manifest: Manifest,
        files: Mapping[str, bytes],
        folder: Path | None,
        devices: Sequence[Device],
        enter: Callable[..., None] = lambda *_: None,
        *,
        bundle_id: str = "",
    ) -> None:
        if manifest.reserved:
            raise ModelInvalid(
                f"bundle.json uses {', '.join(manifest.reserved)}, which this host does not serve yet",
                hint="leave these members out, or use a newer host",
            )
        self._tools, self._manifest, self._files, self._folder = tools, manifest, files, folder
        self._devices, self._enter, self._bundle_id = devices, enter, bundle_id

    def need(self, variant: VariantSpec) -> int:
        """The fewest bytes of a device's memory that a variant takes: its file and weights, and a decoder's slots."""
        files = self._of(variant)
        need = files.nbytes
        spec = self._manifest.generation
        if spec is not None:
            settings = self._tools.rules.generation(self._manifest.name, spec.context)
            signature = DecoderSignature.read(files.spec, files.graph)
            need += (settings.slots + 1) * signature.slot_bytes(settings.context)
        return need

    def build(self, variants: Sequence[VariantSpec]) -> Built:
        """All that the bundle serves with.

        Args:
            variants: the first that loads on all devices is taken; of a decoder, the first.

        Raises:
            ModelInvalid, PluginError, OperatorError: why it cannot be built.
        """
        if self._manifest.generation is not None:
            return self._generating(self._manifest.generation, variants[0])
        if self._manifest.pipeline is not None:
            return self._chained(self._manifest.pipeline)
        with ExitStack() as undo:
            replicas = self._replicas(variants)
            undo.callback(replicas.close)
            self._enter(LoadStage.LOADING)
            specs = {"pre": self._manifest.pre, "post": self._manifest.post}
            stages = self._stages({name: spec for name, spec in specs.items() if spec is not None})
            undo.pop_all()
        return BuiltModel(replicas, stages.get("pre"), stages.get("post"))

    def decoder(self, spec: GenerationSpec, variant: VariantSpec, settings: GenerationSettings) -> Decoder:
        """The decoder alone; see `build`."""
        self._tools.progress(variant.file)
        decoder = Decoder.open(
            self._of(variant),
            self._devices[0],
            slots=settings.slots + 1,  # one for prompts
            context=min(settings.context, spec.context),
            threads=self._tools.settings.threads,
            warming=self._warming,
        )
        self._tools.ledger.enter(decoder, (self._manifest.name, self._manifest.version))
        return decoder

    def logits(self, spec: GenerationSpec, tokens: Sequence[bytes], special: Collection[int]) -> StageRunner | None:
        """What runs the plugin that looks at a decoder's logits, if the bundle has one.

        Args:
            spec: the bundle's.
            tokens: bytes of each.
            special: ids of those that are no text.
        """
        if self._manifest.logits is None:
            return None
        return self._runner("logits", self._manifest.logits, logits_assets(tokens, special, spec.stop_ids))

    def _generating(self, spec: GenerationSpec, variant: VariantSpec) -> BuiltDecoder:
        tools = self._tools
        with ExitStack() as undo:
            settings = tools.rules.generation(self._manifest.name, spec.context)
            decoder = undo.enter_context(self.decoder(spec, variant, settings))
            self._enter(LoadStage.LOADING)
            waiting = STAGE_QUEUES * settings.queue.max_requests
            limits = TextLimits(memory_mib=tools.settings.plugin_memory_mib, max_waiting=waiting)
            files = TextFiles.of(spec, self._files)
            texts = undo.enter_context(TextWorker(self._manifest.name, files, limits))
            logits = self.logits(spec, texts.tokens, texts.special)
            undo.pop_all()
        calls = call_form((files.template or b"").decode("utf-8", "replace"))
        return BuiltDecoder(decoder, Text(texts, settings.queue, spec.add_bos, calls), logits)

    def _chained(self, pipeline: PipelineSpec) -> BuiltPipeline:
        stages = self._stages(pipeline.stages)
        self._enter(LoadStage.WARMING)  # there is nothing to run: its models are warm, or not there
        return BuiltPipeline(StepPlugins(stages))

    def _replicas(self, variants: Sequence[VariantSpec]) -> Replicas:
        """The first of the variants that loads on all of the devices."""
        *preferred, last = variants
        for variant in preferred:
            try:
                return self._on_all(variant)
            except (ModelInvalid, OperatorError) as error:
                _log.warning("%s version %d: %s does not load, the next variant is tried: %s",
                             self._manifest.name, self._manifest.version, variant.file, error)  # fmt: skip
        return self._on_all(last)

    def _on_all(self, variant: VariantSpec) -> Replicas:
        self._tools.progress(variant.file)
        with ExitStack() as undo:
            sessions = [undo.enter_context(self._session(variant, device)) for device in self._devices]
            undo.pop_all()
        return Replicas(sessions, variant.precision)

    def _session(self, variant: VariantSpec, device: Device) -> Session:
        tools, files = self._tools, self._of(variant)
        level = tools.rules.optimisation(self._manifest.name)
        saved = tools.saved.of(self._bundle_id, files, device, level) if tools.saved and self._bundle_id else None
        self._enter(LoadStage.LOADING)
        session = Session.open(
            files,
            device,
            threads=tools.settings.threads,
            optimisation=level,
            max_rows=tools.rules.of(self._manifest).max_rows,
            graphs=tools.settings.cuda_graphs,
            saved=saved,
            warming=self._warming,
        )
        tools.ledger.enter(session, (self._manifest.name, self._manifest.version))
        return session

    def _of(self, variant: VariantSpec) -> ModelFiles:
        return ModelFiles.of(self._manifest.model.as_variant(variant), self._files, self._folder)

    def _warming(self, handle: object) -> None:
        self._enter(LoadStage.WARMING, partial(setattr, handle, "terminate", True))

    def _stages(self, specs: Mapping[str, StageSpec]) -> Mapping[str, GuardedStage]:
        """All of these stages by name, or none."""
        stages: dict[str, GuardedStage] = {}
        with ExitStack() as undo:
            for name, spec in specs.items():
                stages[name] = stage = GuardedStage(self._runner(name, spec, {}), spec)
                undo.callback(stage.close)
            undo.pop_all()
        return stages

    def _runner(self, stage: str, spec: StageSpec, made: Mapping[str, bytes]) -> StageRunner:
        """What runs a stage's plugin, which can read what it lists, and what is made for it."""
        self._tools.progress(spec.plugin)
        assets = {name: self._files[name] for name in spec.assets} | {**made}
        name, version = self._manifest.name, self._manifest.version
        return self._tools.runners.make(name, version, stage, spec, self._files[spec.plugin], assets)
