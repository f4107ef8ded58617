"""What generation needs from other rooms: a decoder, and what masks logits."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sandseal_host.errors import HostError
from sandseal_host.serving.generation.request import GenerationRequest

Logits = NDArray[np.float32]


class Kv(Protocol):
    """A copy of one sequence's keys and values in the host's memory (runtime's `Kv`)."""

    @property
    def length(self) -> int:
        """Positions."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes."""
        ...

    def first(self, length: int) -> "Kv":
        """A view of the first positions."""
        ...


class DecoderRunner(Protocol):
    """A decoder on a device, whose slots hold sequences (runtime's `Decoder`); all calls block, one at a time."""

    slots: int
    context: int
    vocab: int
    slot_bytes: int

    def settle(self) -> None:
        """Keep the calling thread near the device."""
        ...

    def prefill(self, slot: int, ids: Sequence[int], start: int) -> Logits:
        """Run a sequence's next tokens; FP32 [vocab]: the logits behind the last one, good until the next run."""
        ...

    def decode(self, tokens: Sequence[int], lengths: Sequence[int]) -> Logits:
        """Run one token of each of the first slots; FP32 [rows, vocab], good until the next run."""
        ...

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first positions of a slot into another."""
        ...

    def save(self, slot: int, length: int) -> Kv:
        """A copy of the first positions of a slot."""
        ...

    def restore(self, slot: int, kv: Any) -> None:
        """Copy what `save` gave back into any slot."""
        ...

    def close(self) -> None:
        """Give all memory back."""
        ...


class Constraint(Protocol):
    """What may change one sequence's logits before each choice."""

    def ask(self, ids: Sequence[int], logits: Logits) -> None:
        """Begin to look at the next logits; never blocks, and the answer comes through what this was made with.

        Args:
            ids: the answer's tokens since this was called last.
            logits: FP32 [vocab]; nobody else uses them.
        """
        ...

    def close(self) -> None:
        """Let go of it; never blocks. An answer that is under way is not wanted."""
        ...


class LogitsRunner(Protocol):
    """A bundle's logits stage."""

    def constrain(self, request: GenerationRequest, answer: Callable[[Logits | HostError], None]) -> Constraint:
        """What looks at one request's logits.

        Args:
            request: has the constraints.
            answer: takes the logits to choose from, or why there are none; called from any thread.
        """
        ...
