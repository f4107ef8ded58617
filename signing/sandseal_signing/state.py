"""A bundle's `model.state`: which outputs of one run are inputs of the next, for models that go through a sequence."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandseal_signing.schema import Node

Kinds = Mapping[str, tuple[str, tuple[int | str, ...]]]
"""Data types and shapes by a tensor's name."""


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One tensor that the host keeps for each sequence, zeros at its start.

    Args:
        input: the model's input that takes it.
        output: the model's output that gives the next one.
    """

    input: str
    output: str


def read_state(model: Node, inputs: Kinds, outputs: Kinds) -> tuple[StateSpec, ...]:
    """Read the member of `model`; the node's own error class is raised.

    Args:
        inputs, outputs: all of the model's.
    """
    states = [_read(node) for node in model.children("state", [])]
    for state in states:
        kind = inputs.get(state.input)
        if kind is None or kind != outputs.get(state.output):
            model.fail("state", f"{state.input!r} and {state.output!r} are not an input and an output of one kind")
        if kind[0] == "BYTES":
            model.fail("state", f"{state.input!r} holds texts, which have no zeros")
        if any(isinstance(axis, str) and axis != "batch" for axis in kind[1]):
            model.fail(
                "state", f"{state.input!r} has free axes other than 'batch', so that it has no size at the start"
            )
    for side, named in ((inputs, {s.input for s in states}), (outputs, {s.output for s in states})):
        if len(named) != len(states):
            model.fail("state", "names a tensor twice")
        if len(named) == len(side):
            model.fail("state", "leaves no input or no output for clients")
    return tuple(states)


def _read(node: Node) -> StateSpec:
    rule = "the name of a tensor"
    state = StateSpec(node.text("input", valid=bool, rule=rule), node.text("output", valid=bool, rule=rule))
    node.close()
    return state
