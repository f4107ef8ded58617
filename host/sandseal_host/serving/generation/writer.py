"""What a stream's tokens become on their way to it: text, held back where it may still become a stop string."""

from collections.abc import Callable
from dataclasses import replace

from sandseal_host.serving.generation.detokeniser import Detokeniser
from sandseal_host.serving.generation.ports import Constraint
from sandseal_host.serving.generation.request import GenerationRequest, Piece, StreamTimings, Usage
from sandseal_host.serving.generation.sampling import Choice, SamplerRow, TokenLogprob
from sandseal_host.serving.generation.stream import BUFFER, Stream

Delivery = Callable[[], None]
"""What hands something to a stream; called on its event loop."""


class Writer:
    """One stream's other end; used by the lane's thread.

    Args:
        request: what is asked, and as many tokens as the context leaves.
        stream: gets the pieces.
        detokeniser: makes its text.
        row: its part of sampling.

    `constraint` looks at its logits, if anything does; `told` counts the tokens that it knows.
    """

    __slots__ = (
        "_began", "_detokeniser", "_first", "_logprobs", "_request", "_tokens", "constraint", "held_since",
        "last", "made", "read", "row", "stream", "told", "usage",
    )  # fmt: skip

    def __init__(self, request: GenerationRequest, stream: Stream, detokeniser: Detokeniser, row: SamplerRow) -> None:
        self._request, self.stream, self._detokeniser = request, stream, detokeniser
        self.row = row
        self.usage = Usage(len(request.prompt))
        self._tokens: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._began = self._first = self.last = 0.0  # on the monotonic clock; 0 = not yet
        self.made = 0  # pieces
        self.read = 0  # of them; counted by the event loop
        self.held_since: float | None = None
        self.constraint: Constraint | None = None
        self.told = 0

    @property
    def behind(self) -> bool:
        """Whether as many pieces wait to be read as may."""
        return self.made - self.read >= BUFFER

    def begin(self, now: float, cached_tokens: int) -> None:
        """Note its first turn, and how much of the prompt was there already."""
        if not self._began:
            self._began = now
            self.usage = replace(self.usage, cached_tokens=cached_tokens)

    def accept(self, choice: Choice, now: float) -> tuple[Piece | None, bool]:
        """Take the next token.

        Returns:
            The piece that it makes, if any, and whether the answer ends with it.
        """
        self._first, self.last = self._first or now, now
        self.usage = replace(self.usage, completion_tokens=self.usage.completion_tokens + 1)
        if choice.token in self._request.stop_ids:
            return self._piece(self._detokeniser.finish(), "stop"), True
        self._tokens.append(choice.token)
        if choice.logprob is not None:
            self._logprobs.append(choice.logprob)
        text = self._detokeniser.push(choice.token)
        if self._detokeniser.stopped:
            return self._piece(text, "stop"), True
        if self.usage.completion_tokens >= self._request.max_tokens:
            rest = self._detokeniser.finish()
            return self._piece(text + rest, "stop" if self._detokeniser.stopped else "length"), True
        return (self._piece(text, None) if text or self._logprobs else None), False

    def deliver(self, piece: Piece) -> Delivery:
        """What gives the stream a piece, with the figures as they are now."""
        self.made += 1
        stream, usage, timings = self.stream, self.usage, self.timings()
        return lambda: stream.put(piece, usage, timings)

    def close(self) -> None:
        """Let go of what looks at its logits."""
        if self.constraint is not None:
            self.constraint.close()
            self.constraint = None

    def fail(self, error: Exception) -> Delivery:
        """What ends the stream with an error."""
        stream = self.stream
        return lambda: stream.fail(error)

    def _piece(self, text: str, finish: str | None) -> Piece:
        logprobs = tuple(self._logprobs) if self._request.sampling.logprobs is not None else None
        piece = Piece(text, tuple(self._tokens), logprobs, finish)
        self._tokens, self._logprobs = [], []
        return piece

    def timings(self) -> StreamTimings:
        """The seconds of its way so far."""
        arrival = self._request.arrival
        return StreamTimings(max(0.0, self._began - arrival), self._first - self._began, self.last - self._first)
