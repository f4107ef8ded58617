"""A stage of a bundle: the plugin that runs it, and what that may use."""

from dataclasses import dataclass, replace

from sandseal_signing.names import is_identifier
from sandseal_signing.schema import Node, canonical_json
from sandseal_signing.tensor import DataType, TensorSpec, read_tensors

IMPORTS = ("log", "now", "random", "asset")
MAX_MEMORY_MIB = 4096
MAX_TIME_MS = 600_000

LOGITS_INPUTS = (TensorSpec("ids", DataType.INT64, ("new",)), TensorSpec("logits", DataType.FP32, ("vocab",)))
LOGITS_OUTPUTS = LOGITS_INPUTS[1:]
"""What a logits stage takes and gives for each token."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one plugin call may use: linear memory in MiB, CPU time in milliseconds."""

    memory_mib: int = 64
    time_ms: int = 1000


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A pre, post or logits stage: the plugin that runs it, its tensors, and what the publisher asks for it.

    `inputs` and `outputs` are both resolved: a pre stage's outputs are the model's inputs, a post stage's inputs
    the model's outputs. `config` is JSON text without spaces, its members sorted, handed to the guest as it stands.
    `on_failure` is `refuse`, or `passthrough` for a stage that a request can do without.
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

    @property
    def passable(self) -> bool:
        """Whether its inputs can stand in for its outputs: as many, of the same data types and shapes."""
        taken, given = ([(t.dtype, t.shape) for t in side] for side in (self.inputs, self.outputs))
        return taken == given


def read_stage(
    node: Node,
    reserved: list[str],
    inputs: tuple[TensorSpec, ...] | None = None,
    outputs: tuple[TensorSpec, ...] | None = None,
) -> StageSpec:
    """Read a stage's members and close the node.

    Args:
        node: the stage's object; its own error class is raised.
        reserved: gets the members that are read but not served yet.
        inputs, outputs: the side that the model gives; read from the node when absent.
    """
    limits = node.child("limits", None)
    stage = StageSpec(
        plugin=node.file("plugin"),
        function=node.text("function", valid=is_identifier, rule="an identifier"),
        inputs=read_tensors(node, "inputs") if inputs is None else inputs,
        outputs=read_tensors(node, "outputs") if outputs is None else outputs,
        limits=_limits(limits) if limits else Limits(),
        imports=node.texts("imports", (), valid=IMPORTS.__contains__, rule=f"some of {', '.join(IMPORTS)}"),
        assets=node.files("assets", ()),
        config=_config(node),
        on_failure=_choice(node, "on_failure", ("refuse", "passthrough")),
        mode=_choice(node, "mode", ("request", "stream")),
    )
    node.close()
    if stage.on_failure == "passthrough" and not stage.passable:
        node.fail("on_failure", "can be 'passthrough' only where outputs have the data types and shapes of the inputs")
    reserved += [node.at("mode")] * (stage.mode != "request")
    return stage


def read_logits(node: Node) -> StageSpec:
    """Read the stage that changes a generation's logits; the node's own error class is raised.

    What it takes and gives, and how, is not the publisher's choice.
    """
    for name in ("mode", "on_failure"):
        if node.has(name):
            node.fail(name, "is always the same for logits, and cannot be given")
    return replace(read_stage(node, [], LOGITS_INPUTS, LOGITS_OUTPUTS), mode="stream")


def _choice(node: Node, name: str, choices: tuple[str, ...]) -> str:
    """One of `choices`; the first when absent."""
    text: str = node.text(name, choices[0], valid=choices.__contains__, rule=" or ".join(map(repr, choices)))
    return text


def _limits(node: Node) -> Limits:
    limits = Limits(
        memory_mib=node.integer("memory_mib", Limits().memory_mib, low=1, high=MAX_MEMORY_MIB),
        time_ms=node.integer("time_ms", Limits().time_ms, low=1, high=MAX_TIME_MS),
    )
    node.close()
    return limits


def _config(node: Node) -> bytes:
    """The stage's configuration as JSON text; floats are allowed here, since nobody compares it with another text."""
    config = node.take("config", {})
    if not isinstance(config, dict):
        node.fail("config", "must be an object")
    try:
        return canonical_json(config)
    except (TypeError, ValueError) as error:  # TOML has dates and infinities, JSON has neither
        node.fail("config", f"cannot be written as JSON ({error})")
