"""Prompts out of text and messages, for one model."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from sandseal_host.serving.generation.vocabulary import Vocabulary


class Tokeniser(Protocol):
    """A publisher's tokenizer and chat template, where neither can do harm (sandbox's `TextWorker`)."""

    tokens: Sequence[bytes]

    @property
    def special(self) -> Collection[int]:
        """Ids of the tokens that are no text."""
        ...

    async def encode(self, text: str) -> Sequence[int]:
        """The tokens of a text."""
        ...

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Sequence[int]:
        """The tokens of a conversation, up to where the answer begins."""
        ...

    def close(self) -> None:
        """Let go of it; blocks."""
        ...


class Text:
    """What makes a model's prompts.

    Args:
        tokeniser: does it; closed with this.
        add_bos: a token that is put before every prompt that is plain text; None for none.
    """

    def __init__(self, tokeniser: Tokeniser, add_bos: int | None = None) -> None:
        self._tokeniser, self._first = tokeniser, () if add_bos is None else (add_bos,)
        self.vocabulary = Vocabulary(tokeniser.tokens, tokeniser.special)

    async def encode(self, text: str) -> Sequence[int]:
        """The tokens of a plain prompt; errors as the tokeniser raises."""
        return [*self._first, *await self._tokeniser.encode(text)]

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Sequence[int]:
        """The tokens of a conversation, up to where the answer begins.

        Args:
            messages: as in OpenAI's API.
            options: further variables of the template.

        Raises:
            UnsupportedRequest: there is no template.
            InputRefused: the template refuses them.
            HostError: as the tokeniser raises.
        """
        return await self._tokeniser.chat(messages, **options)

    def close(self) -> None:
        """Let go of what does it; blocks."""
        self._tokeniser.close()
