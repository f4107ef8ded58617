"""bundle.json: what a bundle is called, computes, may use and expects (schema sandseal.bundle/1).

The manifest is part of the signed bytes: the host obeys it and never guesses. Its values are ceilings and
defaults; an operator may tighten them, never widen them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sandseal_signing.errors import FormatError, LimitExceeded, ManifestInvalid
from sandseal_signing.names import check_name, is_model_name
from sandseal_signing.schema import Node, canonical_json, parse_json

SCHEMA = "sandseal.bundle/1"
MAX_BYTES = 256 * 1024
IMPORTS = ("log", "now", "random", "asset")
MAX_MEMORY_MIB = 4096
MAX_TIME_MS = 600_000
MAX_RANK = 8


class DataType(StrEnum):
    """The Open Inference Protocol's tensor data types."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor's name, data type and shape; a string axis is free, and the same name is the same size."""

    name: str
    dtype: DataType
    shape: tuple[int | str, ...]

    @property
    def batched(self) -> bool:
        """Whether axis 0 counts rows, that is, is called `batch`."""
        return bool(self.shape) and self.shape[0] == "batch"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one plugin call may use: linear memory in MiB, CPU time in milliseconds."""

    memory_mib: int = 64
    time_ms: int = 1000


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A pre or post stage: the plugin that runs it, its tensors, and what the publisher asks for it.

    `inputs` and `outputs` are both resolved: a pre stage's outputs are the model's inputs, a post stage's inputs
    the model's outputs. `config` is canonical JSON, handed to the guest as it stands.
    """

    plugin: str
    function: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    limits: Limits = Limits()
    imports: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    config: bytes = b"{}"
    on_failure: str = "refuse"
    mode: str = "request"


@dataclass(frozen=True, slots=True)
class Batching:
    """How many rows one run takes, and how long the first of them may wait for others (microseconds)."""

    max_rows: int = 1
    max_delay_us: int = 0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The ONNX graph: its file, the weights beside it, the operator domains it uses, its tensors."""

    file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    external_data: tuple[str, ...] = ()
    domains: tuple[str, ...] = ("",)
    batching: Batching = Batching()
    raw: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """A parsed bundle.json. `reserved` names the members that this version reads but does not serve yet."""

    name: str
    version: int
    model: ModelSpec
    release: str = ""
    expires: datetime | None = None
    not_before: datetime | None = None
    pre: StageSpec | None = None
    post: StageSpec | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    reserved: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The public inputs: what a client sends."""
        return self.pre.inputs if self.pre else self.model.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The public outputs: what a client gets."""
        return self.post.outputs if self.post else self.model.outputs

    @property
    def stages(self) -> tuple[StageSpec, ...]:
        """The plugin stages that the bundle has, in running order."""
        return tuple(stage for stage in (self.pre, self.post) if stage)

    @property
    def files(self) -> frozenset[str]:
        """Every file that the manifest names, and so must be signed."""
        named = {self.model.file, *self.model.external_data}
        for stage in self.stages:
            named |= {stage.plugin, *stage.assets}
        return frozenset(named)


def parse_manifest(data: bytes) -> Manifest:
    """Read bundle.json.

    Raises:
        LimitExceeded: over 256 KiB.
        JsonInvalid: not strict JSON.
        ManifestInvalid: not schema sandseal.bundle/1; the message names the member.
    """
    if len(data) > MAX_BYTES:
        raise LimitExceeded(f"bundle.json has {len(data)} bytes, over {MAX_BYTES}", size=len(data))
    root = Node(parse_json(data, "bundle.json"), "", ManifestInvalid)
    root.take("$schema", None)
    if root.take("schema") != SCHEMA:
        root.fail("schema", f"must be {SCHEMA!r}")
    reserved = [name for name in ("pipeline", "generation") if root.take(name, None) is not None]
    model = _model(root.child("model"), reserved)
    pre, post = root.child("pre", None), root.child("post", None)
    manifest = Manifest(
        name=root.text("name", valid=is_model_name),
        version=root.integer("version", low=1),
        release=root.text("release", "", valid=lambda text: len(text) <= 128),
        expires=_time(root, "expires"),
        not_before=_time(root, "not_before"),
        model=model,
        pre=_stage(pre, reserved, outputs=model.inputs) if pre else None,
        post=_stage(post, reserved, inputs=model.outputs) if post else None,
        metadata=_metadata(root.child("metadata", None)),
        reserved=tuple(reserved),
    )
    root.close()
    return manifest


def render_manifest(manifest: Mapping[str, Any]) -> bytes:
    """bundle.json for people to read and edit; `parse_manifest` must accept it."""
    data = json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"
    parse_manifest(data)
    return data


def _model(node: Node, reserved: list[str]) -> ModelSpec:
    reserved += [
        f"model.{name}" for name in ("variants", "state", "queue", "cache") if node.take(name, None) is not None
    ]
    batching = node.child("batching", None)
    spec = ModelSpec(
        file=_file(node, "file"),
        external_data=_files(node, "external_data"),
        domains=node.texts("domains", ("",), valid=lambda text: len(text) <= 255),
        inputs=_tensors(node, "inputs"),
        outputs=_tensors(node, "outputs"),
        batching=_batching(batching) if batching else Batching(),
        raw=node.texts("raw", ()),
    )
    node.close()
    if spec.batching.max_rows > 1 and not all(t.batched for t in (*spec.inputs, *spec.outputs)):
        node.fail("batching", "max_rows over 1 needs 'batch' as the first axis of every model tensor")
    return spec


def _batching(node: Node) -> Batching:
    batching = Batching(
        max_rows=node.integer("max_rows", 1, low=1, high=65_536),
        max_delay_us=node.integer("max_delay_us", 0, high=10_000_000),
    )
    node.close()
    return batching


def _stage(
    node: Node,
    reserved: list[str],
    inputs: tuple[TensorSpec, ...] | None = None,
    outputs: tuple[TensorSpec, ...] | None = None,
) -> StageSpec:
    limits, config = node.child("limits", None), node.take("config", {})
    if not isinstance(config, dict):
        node.fail("config", "must be an object")
    stage = StageSpec(
        plugin=_file(node, "plugin"),
        function=node.text("function", valid=str.isidentifier),
        inputs=_tensors(node, "inputs") if inputs is None else inputs,
        outputs=_tensors(node, "outputs") if outputs is None else outputs,
        limits=_limits(limits) if limits else Limits(),
        imports=node.texts("imports", (), valid=IMPORTS.__contains__),
        assets=_files(node, "assets"),
        config=_config(node, config),
        on_failure=node.text("on_failure", "refuse", valid=("refuse", "passthrough").__contains__),
        mode=node.text("mode", "request", valid=("request", "stream").__contains__),
    )
    node.close()
    if stage.assets and "asset" not in stage.imports:
        node.fail("assets", "needs 'asset' among the stage's imports")
    reserved += [f"{node.path}.on_failure"] * (stage.on_failure != "refuse")
    reserved += [f"{node.path}.mode"] * (stage.mode != "request")
    return stage


def _limits(node: Node) -> Limits:
    limits = Limits(
        memory_mib=node.integer("memory_mib", Limits().memory_mib, low=1, high=MAX_MEMORY_MIB),
        time_ms=node.integer("time_ms", Limits().time_ms, low=1, high=MAX_TIME_MS),
    )
    node.close()
    return limits


def _config(node: Node, config: dict[str, Any]) -> bytes:
    """The stage's configuration as JSON text; floats are allowed here, since nobody compares them."""
    try:
        return canonical_json(config)
    except ValueError as error:
        node.fail("config", f"cannot be written as JSON ({error})")


def _tensors(node: Node, name: str) -> tuple[TensorSpec, ...]:
    specs = tuple(_tensor(child) for child in node.children(name))
    if not specs:
        node.fail(name, "must hold at least one tensor")
    if len({spec.name for spec in specs}) != len(specs):
        node.fail(name, "holds a tensor name twice")
    return specs


def _tensor(node: Node) -> TensorSpec:
    shape = node.take("shape")
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        node.fail("shape", f"must be a list of at most {MAX_RANK} axes")
    for i, axis in enumerate(shape):
        named = isinstance(axis, str) and axis.isidentifier()
        if not named and not (type(axis) is int and 0 <= axis < 2**31):
            node.fail(f"shape[{i}]", f"must be a size or the name of a free axis, not {axis!r}")
        if axis == "batch" and i:
            node.fail(f"shape[{i}]", "'batch' can only be the first axis")
    spec = TensorSpec(
        name=node.text("name", valid=lambda text: 0 < len(text) <= 255),
        dtype=DataType(node.text("dtype", valid=DataType.__members__.__contains__)),
        shape=tuple(shape),
    )
    node.close()
    return spec


def _file(node: Node, name: str) -> str:
    return _checked(node, name, node.text(name))


def _files(node: Node, name: str) -> tuple[str, ...]:
    return tuple(_checked(node, name, file) for file in node.texts(name, ()))


def _checked(node: Node, name: str, file: str) -> str:
    try:
        return check_name(file)
    except FormatError as error:
        node.fail(name, error.message)


def parse_time(text: str) -> datetime:
    """An RFC 3339 time with zone; ValueError otherwise."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or "T" not in text:
        raise ValueError("needs a date, a time and a zone")
    return moment.astimezone(UTC)


def _time(node: Node, name: str) -> datetime | None:
    text = node.text(name, None)
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError:
        node.fail(name, f"{text!r} is not a time such as 2027-12-31T00:00:00Z")


def _metadata(node: Node | None) -> Mapping[str, str]:
    return {name: node.text(name, valid=lambda text: len(text) <= 4096) for name in node.rest()} if node else {}
