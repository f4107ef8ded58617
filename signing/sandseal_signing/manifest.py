"""bundle.json: what a bundle is called, computes, may use and expects (schema sandseal.bundle/1).

`signing/bundle.schema.json` says the same as JSON Schema, as far as JSON Schema can; a test compares the two.

The manifest is part of the signed bytes: the host obeys it and never guesses. Its values are ceilings and
defaults; an operator may tighten them, never widen them.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from sandseal_signing.errors import LimitExceeded, ManifestInvalid
from sandseal_signing.generation import GenerationSpec, read_generation
from sandseal_signing.names import MANIFEST, MODEL_NAME_RULE, is_model_name
from sandseal_signing.pipeline import PipelineSpec, read_pipeline
from sandseal_signing.schema import Node, parse_json
from sandseal_signing.stage import StageSpec, read_logits, read_stage
from sandseal_signing.state import StateSpec, read_state
from sandseal_signing.tensor import DataType, TensorSpec, read_tensors
from sandseal_signing.variants import VariantSpec, read_variants

SCHEMA = "sandseal.bundle/1"
MAX_BYTES = 256 * 1024
MAX_PLUGIN_BYTES = 64 << 20

_CONTENT_TYPE = re.compile(r"[a-z0-9*][a-z0-9*!#$&^_.+-]{0,126}/[a-z0-9*][a-z0-9*!#$&^_.+-]{0,126}\Z")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)\Z", re.ASCII)


TEXT_INPUT = TensorSpec("text_input", DataType.BYTES, (1,))
TEXT_OUTPUT = TensorSpec("text_output", DataType.BYTES, (1,))
"""What a model that generates text takes and gives, whatever its graph does."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How many rows one run takes, and how long the first of them may wait for others (microseconds)."""

    max_rows: int = 1
    max_delay_us: int = 0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The ONNX graph: its file, the weights beside it, the operator domains it uses, its tensors.

    `raw` lists the content types that a plain body may have; empty means any. `variants` has the graph itself and those
    of other precisions, the one to be preferred first; empty when it is the only one. `state` has the tensors that a
    sequence goes on with, which are among `inputs` and `outputs`. `cache` says that equal requests have equal answers.
    """

    file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    external_data: tuple[str, ...] = ()
    domains: tuple[str, ...] = ("",)
    batching: Batching = Batching()
    raw: tuple[str, ...] = ()
    variants: tuple[VariantSpec, ...] = ()
    state: tuple[StateSpec, ...] = ()
    cache: bool = False

    @property
    def plain_inputs(self) -> tuple[TensorSpec, ...]:
        """Those that are no state."""
        kept = {state.input for state in self.state}
        return tuple(spec for spec in self.inputs if spec.name not in kept)

    @property
    def plain_outputs(self) -> tuple[TensorSpec, ...]:
        """Those that are no state."""
        kept = {state.output for state in self.state}
        return tuple(spec for spec in self.outputs if spec.name not in kept)

    @property
    def weights(self) -> tuple[str, ...]:
        """The files beside its graphs."""
        return tuple(dict.fromkeys(chain(self.external_data, *(variant.external_data for variant in self.variants))))

    def as_variant(self, variant: VariantSpec) -> "ModelSpec":
        """The same model as one of its variants."""
        return replace(self, file=variant.file, external_data=variant.external_data)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A parsed bundle.json. `reserved` names the members that this version reads but does not serve yet.

    Where there is `generation`, the graph is a decoder, and `model` says what clients see of it: text in, text out.
    Where there is a `pipeline`, there is no graph, so that `model` has no file; it says what clients see.
    """

    name: str
    version: int
    model: ModelSpec
    release: str = ""
    expires: datetime | None = None
    not_before: datetime | None = None
    pre: StageSpec | None = None
    post: StageSpec | None = None
    generation: GenerationSpec | None = None
    logits: StageSpec | None = None
    pipeline: PipelineSpec | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    reserved: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The public inputs: what a client sends."""
        return self.pre.inputs if self.pre else self.model.plain_inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The public outputs: what a client gets."""
        return self.post.outputs if self.post else self.model.plain_outputs

    @property
    def stages_by_name(self) -> Mapping[str, StageSpec]:
        """The plugin stages that the bundle has, in running order; a pipeline's by the names of their steps."""
        if self.pipeline is not None:
            return self.pipeline.stages
        stages = {"pre": self.pre, "logits": self.logits, "post": self.post}
        return {name: stage for name, stage in stages.items() if stage}

    @property
    def stages(self) -> tuple[StageSpec, ...]:
        """The same without their names."""
        return tuple(self.stages_by_name.values())

    @property
    def files(self) -> frozenset[str]:
        """Every file that the manifest names, and so must be signed."""
        named = {self.model.file, *self.model.weights, *(variant.file for variant in self.model.variants)}
        named.discard("")  # a pipeline has no graph
        for stage in self.stages:
            named |= {stage.plugin, *stage.assets}
        return self.generation.files.union(named) if self.generation else frozenset(named)


def check_size(size: int) -> None:
    """Check the size of bundle.json in bytes, before it is read.

    Raises:
        LimitExceeded: over 256 KiB.
    """
    if size > MAX_BYTES:
        raise LimitExceeded(f"{MANIFEST} has {size} bytes, over {MAX_BYTES}", size=size)


def parse_manifest(data: bytes) -> Manifest:
    """Read bundle.json.

    Raises:
        LimitExceeded: over 256 KiB.
        JsonInvalid: not strict JSON.
        ManifestInvalid: not schema sandseal.bundle/1; the message names the member.
    """
    check_size(len(data))
    root = Node(parse_json(data, "bundle.json"), "", ManifestInvalid)
    root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
    root.text("$schema", None)
    reserved: list[str] = []
    name = root.text("name", valid=is_model_name, rule=MODEL_NAME_RULE)
    chained = root.child("pipeline", None)
    if chained and (beside := [other for other in ("model", "pre", "post", "generation") if root.has(other)]):
        root.fail(beside[0], "cannot stand beside pipeline, whose steps say all of it")
    raw = _raw(chained) if chained else ()
    pipeline = read_pipeline(chained, name, reserved) if chained else None
    model = _seen(pipeline, raw) if pipeline else _model(root.child("model"), reserved)
    pre, post = root.child("pre", None), root.child("post", None)
    generation = root.child("generation", None)
    logits = generation.child("logits", None) if generation else None
    manifest = Manifest(
        name=name,
        version=root.integer("version", low=1),
        release=root.text("release", "", valid=_at_most(128), rule="at most 128 characters"),
        expires=_time(root, "expires"),
        not_before=_time(root, "not_before"),
        model=model,
        pre=read_stage(pre, reserved, outputs=model.plain_inputs) if pre else None,
        post=read_stage(post, reserved, inputs=model.plain_outputs) if post else None,
        logits=read_logits(logits) if logits else None,
        generation=read_generation(generation) if generation else None,
        pipeline=pipeline,
        metadata=_metadata(root.child("metadata", None)),
        reserved=tuple(reserved),
    )
    root.close()
    _check(manifest, root)
    return manifest


def render_manifest(manifest: Mapping[str, Any]) -> bytes:
    """bundle.json for people to read and edit; `parse_manifest` must accept it."""
    data = json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"
    parse_manifest(data)
    return data


def _check(manifest: Manifest, root: Node) -> None:
    """See that the members go together."""
    model = manifest.model
    if manifest.expires and manifest.not_before and manifest.expires <= manifest.not_before:
        root.fail("expires", "must be after not_before")
    if model.cache and (why := _uncacheable(manifest)):
        root.fail("model.cache", f"cannot be true with {why}: equal requests need not have equal answers")
    if manifest.generation is None:
        return
    if (model.inputs, model.outputs) != ((TEXT_INPUT,), (TEXT_OUTPUT,)):
        root.fail("model", "must have the one input text_input and the one output text_output, BYTES [1], to generate")
    if manifest.pre or manifest.post:
        why = "cannot stand beside generation; a tokenizer.json and a logits stage do its work"
        root.fail("pre" if manifest.pre else "post", why)


def _reserved(node: Node, *names: str) -> list[str]:
    """The paths of members that later versions of the host will serve; their values are not looked at yet."""
    found = [name for name in names if node.has(name)]
    for name in found:
        node.take(name)
    return [node.at(name) for name in found]


def _at_most(length: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= length


def _model(node: Node, reserved: list[str]) -> ModelSpec:
    reserved += _reserved(node, "queue")
    batching = node.child("batching", None)
    file, external_data = node.file("file"), node.files("external_data", ())
    inputs, outputs = read_tensors(node, "inputs"), read_tensors(node, "outputs")
    spec = ModelSpec(
        file=file,
        external_data=external_data,
        domains=node.texts("domains", ("",), valid=_at_most(255), rule="ONNX operator domains", least=1),
        inputs=inputs,
        outputs=outputs,
        batching=_batching(batching) if batching else Batching(),
        raw=_raw(node),
        variants=read_variants(node, file, external_data),
        state=read_state(node, *({t.name: (t.dtype, t.shape) for t in side} for side in (inputs, outputs))),
        cache=node.flag("cache", False),
    )
    node.close()
    if spec.batching.max_rows > 1 and not all(t.batched for t in (*spec.inputs, *spec.outputs)):
        node.fail("batching", "max_rows over 1 needs 'batch' as the first axis of every model tensor")
    return spec


def _seen(pipeline: PipelineSpec, raw: tuple[str, ...]) -> ModelSpec:
    """What clients see of a pipeline."""
    return ModelSpec("", pipeline.inputs, pipeline.outputs, domains=(), raw=raw)


def _raw(node: Node) -> tuple[str, ...]:
    types: tuple[str, ...] = node.texts("raw", (), valid=_CONTENT_TYPE.match, rule="content types such as image/png")
    return types


def _uncacheable(manifest: Manifest) -> str:
    """What makes two answers to one request differ; empty where nothing does."""
    imports = sorted({"now", "random"}.intersection(chain.from_iterable(stage.imports for stage in manifest.stages)))
    if imports:
        return f"a plugin that imports {imports}"
    return "state" if manifest.model.state else "generation" if manifest.generation else ""


def _batching(node: Node) -> Batching:
    batching = Batching(
        max_rows=node.integer("max_rows", 1, low=1, high=65_536),
        max_delay_us=node.integer("max_delay_us", 0, high=10_000_000),
    )
    node.close()
    return batching


def _time(node: Node, name: str) -> datetime | None:
    """An RFC 3339 date and time with zone, in UTC."""
    text = node.text(name, None, valid=_TIME.match, rule="a time such as '2027-12-31T00:00:00Z'")
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        node.fail(name, f"{text!r} is not a time that exists in UTC")


def _metadata(node: Node | None) -> Mapping[str, str]:
    if node is None:
        return {}
    return {name: node.text(name, valid=_at_most(4096), rule="at most 4096 characters") for name in node.rest()}
