"""Choosing the next token of each row of a decode batch.

In this order: repetition penalty, presence and frequency penalty, logit bias; then temperature 0 takes the largest
logit, and any other draws from softmax(logits / temperature) of the tokens that top-k, then top-p, then min-p leave.
Tokens that tie with the last one of these stay. What a row gets depends on its own logits and its own draws alone.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sandseal_host.errors import ModelFailed, RequestInvalid
from sandseal_host.serving.generation.drawing import draw

MAX_LOGPROBS = 20
MAX_BIASED = 1024  # tokens of one request

_KEY = 1 << 128  # keys that Philox knows
_UNIT = 2.0**-53
_NO_CHOICE = "the logits hold a NaN, or leave no token to choose"
_WHOSE_LOGITS = "ask for less by logit_bias or constraints; else the publisher must look at the graph or its plugin"

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a request's tokens are chosen.

    Args:
        temperature: 0 takes the likeliest token.
        top_k: how many of the likeliest tokens stay; 0 for all.
        top_p: the least share that the likeliest tokens which stay have together; 0 leaves the likeliest alone.
        min_p: the least probability that a token may have, as a part of the likeliest one's.
        repetition_penalty: divides the positive logits, and multiplies the negative ones, of tokens in the prompt and
            the answer (CTRL, arXiv 1909.05858).
        presence_penalty: taken from the logit of every token in the answer.
        frequency_penalty: taken from it for each time that it is there.
        seed: of the draws; None for one that nobody knows.
        logit_bias: added to the logits of these tokens.
        logprobs: how many of the likeliest tokens to report beside the chosen one; None reports nothing.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None

    def check(self, vocab: int) -> None:
        """See that every value has a meaning.

        Args:
            vocab: tokens that the model knows.

        Raises:
            RequestInvalid: one has none; the message names it.
        """
        numbers = (self.temperature, self.presence_penalty, self.frequency_penalty, *self.logit_bias.values())
        if not all(map(math.isfinite, numbers)):
            raise _invalid("temperature, penalties and logit_bias must be finite numbers")
        for name, good, rule in (
            ("temperature", self.temperature >= 0, "0 or more"),
            ("top_k", self.top_k >= 0, "0 (all) or more"),
            ("top_p", 0 <= self.top_p <= 1, "from 0 to 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < math.inf, "over 0"),
            ("logprobs", self.logprobs is None or 0 <= self.logprobs <= MAX_LOGPROBS, f"from 0 to {MAX_LOGPROBS}"),
        ):
            if not good:
                raise _invalid(f"{name} is {getattr(self, name)}, and must be {rule}")
        if len(self.logit_bias) > MAX_BIASED:
            raise _invalid(f"logit_bias has {len(self.logit_bias)} tokens, over {MAX_BIASED}")
        unknown = next((token for token in self.logit_bias if not 0 <= token < vocab), None)
        if unknown is not None:
            raise _invalid(f"logit_bias names token {unknown}, and the model has tokens 0 to {vocab - 1}")


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely a token was by the logits as they came, before penalties, bias and temperature.

    Args:
        token: its id.
        logprob: natural logarithm of its probability.
        top: ids and logprobs of the likeliest tokens, the likeliest first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A row's next token.

    Args:
        token: its id.
        logprob: where the request asks for it.
    """

    token: int
    logprob: TokenLogprob | None = None


class SamplerRow:
    """One request's part of sampling: what it has seen, and its own draws; made by `Sampler.row`.

    Args:
        sampling: as checked.
        prompt: the prompt's tokens.
    """

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        self.sampling = sampling
        seed = secrets.randbits(64) if sampling.seed is None else sampling.seed
        self._draws = np.random.Philox(key=seed % _KEY)
        self._biased = np.fromiter(sampling.logit_bias.keys(), np.intp)
        self._bias = np.fromiter(sampling.logit_bias.values(), np.float32)
        self._penalised = (
            sampling.repetition_penalty != 1 or sampling.presence_penalty != 0 or sampling.frequency_penalty != 0
        )
        self._places: dict[int, int] = {}
        self._ids, self._counts = np.empty(0, np.intp), np.empty(0, np.float32)
        if self._penalised:
            for token in prompt:
                self._place(token)

    def draw(self) -> float:
        """The next number from 0 to 1, exclusive."""
        return float(int(self._draws.random_raw()) >> 11) * _UNIT

    def choose(self, logits: Logits) -> int:
        """A token drawn from FP32 [vocab], which are overwritten."""
        its = self.sampling
        return draw(logits, its.temperature, its.top_k, its.top_p, its.min_p, self.draw())

    def accept(self, token: int) -> None:
        """Count a token of the answer."""
        if self._penalised:
            place = self._place(token)  # which may make room
            self._counts[place] += 1

    def adjust(self, logits: Logits) -> None:
        """Apply penalties and bias to FP32 [vocab], in place."""
        if self._penalised:
            self._penalise(logits)
        if self._biased.size:
            logits[self._biased] += self._bias

    def _penalise(self, logits: Logits) -> None:
        sampling, size = self.sampling, len(self._places)
        ids, counts = self._ids[:size], self._counts[:size]
        found = logits[ids]
        if sampling.repetition_penalty != 1:
            factor = np.float32(sampling.repetition_penalty)
            found = np.where(found > 0, found / factor, found * factor)
        found -= np.float32(sampling.presence_penalty) * (counts > 0) + np.float32(sampling.frequency_penalty) * counts
        logits[ids] = found

    def _place(self, token: int) -> int:
        """Where a token is counted; from now on, if it is new."""
        place = self._places.setdefault(token, len(self._places))
        if place == self._ids.size:
            more = max(64, place)
            self._ids = np.concatenate([self._ids, np.zeros(more, np.intp)])
            self._counts = np.concatenate([self._counts, np.zeros(more, np.float32)])
        self._ids[place] = token
        return place


class Sampler:
    """Chooses tokens for the rows of a model's batches.

    Args:
        vocab: tokens that the model knows.
    """

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab

    def row(self, sampling: Sampling, prompt: Sequence[int] = ()) -> SamplerRow:
        """What a new request brings to each `sample`.

        Args:
            prompt: its tokens, each within the vocabulary.

        Raises:
            RequestInvalid: as `Sampling.check` raises.
        """
        sampling.check(self._vocab)
        return SamplerRow(sampling, prompt)

    def sample(self, logits: Logits, rows: Sequence[SamplerRow]) -> list[Choice | ModelFailed]:
        """Choose a token for each row, and count it there.

        Args:
            logits: FP32 [rows, vocab], of which -inf is never chosen; they are overwritten.

        Returns:
            For each row its choice, or why it has none: a NaN, or no finite logit.
        """
        asked = [row.sampling.logprobs is not None for row in rows]
        reports = [_Report(its) if ask else None for its, ask in zip(logits, asked, strict=True)]
        for its, row in zip(logits, rows, strict=True):
            row.adjust(its)
        best = logits.argmax(axis=1)
        sound: list[bool] = np.isfinite(np.take_along_axis(logits, best[:, None], axis=1)[:, 0]).tolist()
        tokens: list[int] = best.tolist()
        for i, row in enumerate(rows):
            if sound[i] and row.sampling.temperature > 0:
                tokens[i] = row.choose(logits[i])
        return [
            _choice(token, row, report) if good else ModelFailed(_NO_CHOICE, hint=_WHOSE_LOGITS)
            for token, row, report, good in zip(tokens, rows, reports, sound, strict=True)
        ]


class _Report:
    """A row's log-probabilities, from its logits as they came."""

    def __init__(self, logits: Logits) -> None:
        largest = logits.max()
        self._logprobs = logits - (largest + np.log(np.exp(logits - largest).sum(dtype=np.float64))).astype(np.float32)

    def of(self, token: int, count: int) -> TokenLogprob:
        """The token's, and those of the `count` likeliest tokens."""
        logprobs, count = self._logprobs, min(count, self._logprobs.size)
        top = np.argpartition(logprobs, -count)[-count:] if count else np.empty(0, np.intp)
        top = top[np.lexsort((top, -logprobs[top]))]  # equally likely ones by their ids
        return TokenLogprob(token, float(logprobs[token]), tuple((int(i), float(logprobs[i])) for i in top))


def _choice(token: int, row: SamplerRow, report: _Report | None) -> Choice:
    row.accept(token)
    return Choice(token, report.of(token, row.sampling.logprobs or 0) if report else None)


def _invalid(message: str) -> RequestInvalid:
    return RequestInvalid(message, hint="correct the sampling parameters, or leave them out")
