"""Prompts out of text and messages, for one model."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from sandseal_host.serving.generation.tool_calls import CallForm
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.request import Request
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.turns import Turns


class Tokeniser(Protocol):
    """A publisher's tokenizer and chat template, where neither can do harm (sandbox's `TextWorker`)."""

    tokens: Sequence[bytes]

    @property
    def special(self) -> Collection[int]:
        """Ids of the tokens that are no text."""
        ...

    async def encode(self, text: str, urgency: float) -> Sequence[int]:
        """The tokens of a text; the earliest urgency is served first."""
        ...

    async def chat(self, messages: Sequence[Mapping[str, Any]], urgency: float, **options: Any) -> Sequence[int]:
        """The tokens of a conversation, up to where the answer begins."""
        ...

    def statistics(self) -> Any:
        """What it counts."""
        ...

    def close(self) -> None:
        """Let go of it; blocks."""
        ...


class Text:
    """What makes a model's prompts, for everybody in turn: a call is served by the rule of urgency of all requests.

    Args:
        tokeniser: does it; closed with this.
        settings: the lane's, with the classes and the tenants' weights.
        add_bos: a token that is put before every prompt that is plain text; None for none.
        calls: how the model writes calls of functions; None where it was taught none.
    """

    def __init__(
        self,
        tokeniser: Tokeniser,
        settings: SchedulerSettings,
        add_bos: int | None = None,
        calls: CallForm | None = None,
    ) -> None:
        self._tokeniser, self._first = tokeniser, () if add_bos is None else (add_bos,)
        self._turns = Turns(settings)
        self.vocabulary = Vocabulary(tokeniser.tokens, tokeniser.special)
        self.calls = calls

    async def encode(self, text: str, request: Request) -> Sequence[int]:
        """The tokens of a plain prompt.

        Args:
            text: the prompt.
            request: says whose it is, and how urgent.

        Raises:
            QueueFull: as many of its class wait as may.
            HostError: as the tokeniser raises.
        """
        with self._turns.take(request) as urgency:
            return [*self._first, *await self._tokeniser.encode(text, urgency)]

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], request: Request, *, opening: str = "", **options: Any
    ) -> Sequence[int]:
        """The tokens of a conversation, up to where the answer begins.

        Args:
            messages: as in OpenAI's API.
            request: see `encode`.
            opening: what the answer begins with, in which names of special tokens stand for these.
            options: further variables of the template.

        Raises:
            UnsupportedRequest: there is no template.
            InputRefused: the template refuses them.
            QueueFull, HostError: see `encode`.
        """
        with self._turns.take(request) as urgency:
            prompt = await self._tokeniser.chat(messages, urgency, **options)
            return [*prompt, *await self._tokeniser.encode(opening, urgency)] if opening else prompt

    def statistics(self) -> Any:
        """What the tokeniser counts."""
        return self._tokeniser.statistics()

    def close(self) -> None:
        """Let go of what does it; blocks."""
        self._tokeniser.close()
