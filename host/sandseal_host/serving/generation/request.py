"""What rooms hand each other about one generation: the request, and what its stream yields."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandseal_host.serving.generation.sampling import Sampling, TokenLogprob
from sandseal_host.serving.request import ServiceClass


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation as the edge hands it in.

    Args:
        id: unique within the host.
        prompt: token ids.
        sampling: how tokens are chosen.
        max_tokens: of the answer; fewer where the context ends first.
        service_class, tenant, arrival, deadline: as a `Request` has them; the deadline also ends a stream that runs.
        stop: texts that end the answer, which has none of them.
        stop_ids: tokens that end it, likewise.
        shown: special tokens that are part of its text all the same.
        constraints: for logits plugins, UTF-8 JSON.
    """

    id: int
    prompt: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    service_class: ServiceClass
    tenant: str
    arrival: float
    deadline: float = float("inf")
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    shown: frozenset[int] = frozenset()
    constraints: bytes = b"{}"

    @property
    def rows(self) -> int:
        """What it counts for in queues and shares: the tokens that it may come to."""
        return len(self.prompt) + self.max_tokens


@dataclass(frozen=True, slots=True)
class Piece:
    """What a stream yields.

    Args:
        text: what the answer goes on with; whole characters, and nothing that a stop text may still begin with.
        tokens: ids that were chosen since the piece before.
        logprobs: of those tokens, where the request asks for them.
        finish: of the last piece why it is the last: `stop` or `length`; None before.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a stream so far.

    Args:
        prompt_tokens: that were sent.
        completion_tokens: that were chosen.
        cached_tokens: of the prompt, whose keys and values were there from an earlier one.
    """

    prompt_tokens: int
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StreamTimings:
    """Seconds of a stream's way so far, as Server-Timing shows them.

    Args:
        queue: until it had its first turn.
        prefill: from there to its first token.
        decode: from there to its last one.
    """

    queue: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0

    def table(self) -> Mapping[str, float]:
        """The same by name, in order."""
        return {"queue": self.queue, "prefill": self.prefill, "decode": self.decode}
