"""What a client asks of a model, decoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sandseal_host.api.binary_tensor import BinarySlot
from sandseal_host.api.terms import Terms
from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import Tensor, record


class Wanted(NamedTuple):
    """How an output is wanted.

    Args:
        binary: behind the JSON instead of in it.
        classes: as so many of its largest values; 0 for the output itself.
    """

    binary: bool
    classes: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the JSON of a request says; needs only the request's body to become an inference.

    Args:
        inputs: those of the public signature, in its order: tensors, or where in the body they are.
        rows: size of the batch axis; 1 where the model has none.
        terms: how it wants to be served.
        end: how long the body must be.
        id: echoed in the answer; empty when none was given.
        outputs: the outputs asked for, and how; None for all of them.
        binary: whether outputs that say nothing are wanted as binary.
        classifies: whether any output is wanted as its classes, which takes a while to find.
    """

    inputs: tuple[Tensor | BinarySlot, ...]
    rows: int
    terms: Terms
    end: int
    id: str = ""
    outputs: Mapping[str, Wanted] | None = None
    binary: bool = False
    classifies: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classifies", any(wanted.classes for wanted in (self.outputs or {}).values()))

    @property
    def all_binary(self) -> bool:
        """Whether the JSON holds no data, so that other requests may well have the same."""
        return all(isinstance(entry, BinarySlot) for entry in self.inputs)

    def fill(self, body: memoryview) -> "Inference":
        """The inference of the request that has this body.

        Raises:
            RequestInvalid: the body is too short, has bytes left over, or does not hold what its tensors must.
        """
        if len(body) != self.end:
            raise RequestInvalid(
                f"the body has {len(body)} bytes, but its JSON and binary inputs take {self.end}",
                hint="Inference-Header-Content-Length and every binary_data_size must add up to the body's length",
                got=len(body), wanted=self.end,
            )  # fmt: skip
        inputs = [entry.view(body) if isinstance(entry, BinarySlot) else entry for entry in self.inputs]
        return Inference(tuple(inputs), self)


@record
class Inference:
    """A request's tensors, in the order of the model's public signature, and what was said about them.

    Args:
        inputs: binary ones view the request's body.
        plan: what the request's JSON said.
    """

    inputs: tuple[Tensor, ...]
    plan: Plan
