"""A bundle's `pipeline`: served models, and plugins of its own, that answer one request one after the other.

Steps stand in the order in which they run, and each tensor that a step takes comes from the request or from a step
before it; so there are no cycles. A model is named, and never part of the bundle: it is a bundle under signatures of
its own, which may be replaced or revoked by itself. What the pipeline takes it for, its tensors, is written here and
signed; a host refuses to run a model that is anything else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sandseal_signing.names import MODEL_NAME_RULE, is_model_name
from sandseal_signing.schema import Node
from sandseal_signing.stage import StageSpec, read_stage
from sandseal_signing.tensor import TensorSpec, read_tensors

MAX_STEPS = 64
REQUEST = "input"
"""Stands for the request where a step's name would stand."""

_STEP = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_BUNDLE = re.compile(r"[0-9a-f]{64}\Z")


class Source(NamedTuple):
    """Where a tensor comes from: an output of a step, or an input of the request."""

    step: str
    tensor: str

    def __str__(self) -> str:
        return f"{self.step}.{self.tensor}"


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One step: a plugin of the bundle's own, or a model that the host serves.

    A model's step may take any number of rows, which the host divides among as many of the model's batches as it takes.

    Args:
        name: of the step.
        inputs, outputs: what it takes and gives; of a model it may take less than that gives.
        sources: of the inputs, in their order.
        stage: the plugin; None for a model.
        model: its name; empty for a plugin.
        bundle: the id of the only bundle that may be that model; empty for whichever serves.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    sources: tuple[Source, ...]
    stage: StageSpec | None = None
    model: str = ""
    bundle: str = ""

    @property
    def by_rows(self) -> bool:
        """Whether its inputs have rows."""
        return any(spec.batched for spec in self.inputs)

    def misfit(self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> str | None:
        """Why a model of this public signature is not the one that the step is signed for; None: it is."""
        taken, given = ({spec.name: spec for spec in side} for side in (inputs, outputs))
        if taken.keys() != {spec.name for spec in self.inputs}:
            return f"it takes {sorted(taken)}, not {sorted(spec.name for spec in self.inputs)}"
        pairs = [(spec, taken[spec.name]) for spec in self.inputs]
        for spec in self.outputs:
            if spec.name not in given:
                return f"it gives no {spec.name!r}"
            pairs.append((given[spec.name], spec))
        for one, other in pairs:
            why = one.misfit(other)
            if why is None and one.batched != other.batched:
                why = "its first axis counts rows on one side only"
            if why is not None:
                return f"tensor {one.name!r}: {why}"
        return None


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """Models and plugins behind one name.

    Args:
        inputs, outputs: what clients send and get.
        sources: of the outputs, in their order.
        steps: in running order.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    sources: tuple[Source, ...]
    steps: tuple[StepSpec, ...]

    @property
    def stages(self) -> Mapping[str, StageSpec]:
        """Its own plugins by the step that runs them."""
        return {step.name: step.stage for step in self.steps if step.stage}

    @property
    def members(self) -> tuple[StepSpec, ...]:
        """The steps that are models."""
        return tuple(step for step in self.steps if step.stage is None)


def read_pipeline(node: Node, own: str, reserved: list[str]) -> PipelineSpec:
    """Read the member and close the node; the node's own error class is raised.

    Args:
        own: the bundle's name, which no step may ask for.
        reserved: gets the members that are read but not served yet.
    """
    inputs = read_tensors(node, "inputs")
    made: dict[str, tuple[TensorSpec, ...]] = {REQUEST: inputs}
    steps: list[StepSpec] = []
    children = node.children("steps")
    if not 0 < len(children) <= MAX_STEPS:
        node.fail("steps", f"must hold 1 to {MAX_STEPS} steps")
    for child in children:
        step = _step(child, own, made, reserved)
        made[step.name] = step.outputs
        steps.append(step)
    outputs, sources = _fed(node, "outputs", made)
    node.close()
    return PipelineSpec(inputs, outputs, sources, tuple(steps))


def _step(node: Node, own: str, made: Mapping[str, tuple[TensorSpec, ...]], reserved: list[str]) -> StepSpec:
    name = node.text("name", valid=_STEP.match, rule="1 to 32 of a-z, 0-9, '_' and '-', the first a letter")
    if name in made:
        node.fail("name", f"{name!r} is taken, by the request or by a step before this one")
    inputs, sources = _fed(node, "inputs", made)
    if node.has("plugin"):
        stage = read_stage(node, reserved, inputs=inputs)
        return StepSpec(name, inputs, stage.outputs, sources, stage=stage)
    model = node.text("model", valid=is_model_name, rule=f"a model's name: {MODEL_NAME_RULE}")
    if model == own:
        node.fail("model", "is the pipeline itself")
    bundle = node.text("bundle", "", valid=_BUNDLE.match, rule="a bundle's id, 64 lower-case hex digits")
    step = StepSpec(name, inputs, read_tensors(node, "outputs"), sources, model=model, bundle=bundle)
    node.close()
    if step.by_rows and not all(spec.batched for spec in step.outputs):
        node.fail("outputs", "must have 'batch' as their first axes, as its inputs have: rows come out as they went in")
    return step


def _fed(
    node: Node, name: str, made: Mapping[str, tuple[TensorSpec, ...]]
) -> tuple[tuple[TensorSpec, ...], tuple[Source, ...]]:
    """Tensors that say where they come from, and that."""
    sources: list[Source] = []

    def take(child: Node) -> None:
        source = child.text("from", rule="a source, such as input.image or step.output")
        sources.append(Source(*source.partition(".")[::2]))

    specs = read_tensors(node, name, take)
    for spec, source in zip(specs, sources, strict=True):
        if (why := _unfit(source, spec, made)) is not None:
            node.fail(name, f"tensor {spec.name[:80]!r} cannot come from {str(source)[:80]!r}: {why}")
    return specs, tuple(sources)


def _unfit(source: Source, spec: TensorSpec, made: Mapping[str, tuple[TensorSpec, ...]]) -> str | None:
    if source.step not in made:
        return f"there is no such step before it; there are {', '.join(made)}"
    found = [given for given in made[source.step] if given.name == source.tensor]
    if not found:
        return f"{source.step} has {', '.join(given.name for given in made[source.step])}"
    return found[0].misfit(spec)
