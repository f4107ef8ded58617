"""`POST /v1/completions`: a text in, what follows it out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sandseal_host.api.generation_options import read_options
from sandseal_host.api.openai.form import MAX_CHOICES, Choice, finish, joined, refuse
from sandseal_host.api.openai.logprobs import text_logprobs
from sandseal_host.api.ports import Text
from sandseal_host.serving.generation.request import Piece
from sandseal_host.serving.generation.sampling import MAX_LOGPROBS
from sandseal_host.serving.generation.vocabulary import Vocabulary
from sandseal_host.serving.request import Request
from sandseal_signing.generation import MAX_TOKEN_ID
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import Node

_DEFAULT_TOKENS = 16  # as OpenAI has it

Prompt = str | list[int]


class CompletionForm:
    """A completion's request; see `Form`.

    Args:
        node: its members; those of this form are taken.
        manifest: the model's.
    """

    prefix, whole, part = "cmpl", "text_completion", "text_completion"

    def __init__(self, node: Node, manifest: Manifest) -> None:
        self._prompts = _prompts(node)
        self._sent: dict[int, int] = {}  # characters, by answer
        options = read_options(node, manifest, node.integer("logprobs", None, high=MAX_LOGPROBS))
        self.options = options if options.max_tokens else replace(options, max_tokens=_DEFAULT_TOKENS)
        refuse(node, "echo", "is not supported here: the prompt is not sent back")
        refuse(node, "suffix", "is not supported here")
        refuse(node, "best_of", "is not supported here; ask for n answers", 1)

    async def prompts(self, text: Text, request: Request) -> Sequence[Sequence[int]]:
        """The prompts, of which those that are text are made tokens."""
        return [await text.encode(prompt, request) if isinstance(prompt, str) else prompt for prompt in self._prompts]

    def begin(self, index: int) -> Choice | None:
        """Nothing."""
        return None

    def go_on(self, index: int, piece: Piece, vocabulary: Vocabulary) -> Choice:
        """What the text goes on with."""
        choice = self._choice(index, [piece], vocabulary, self._sent.get(index, 0))
        self._sent[index] = self._sent.get(index, 0) + len(piece.text)
        return choice

    def answer(self, index: int, pieces: Sequence[Piece], vocabulary: Vocabulary) -> Choice:
        """The whole text."""
        return self._choice(index, pieces, vocabulary, 0)

    def _choice(self, index: int, pieces: Sequence[Piece], vocabulary: Vocabulary, offset: int) -> Choice:
        return {
            "index": index,
            "text": joined(pieces),
            "logprobs": text_logprobs(pieces, vocabulary, offset),
            "finish_reason": finish(pieces),
        }


def _prompts(node: Node) -> list[Prompt]:
    """One prompt or several, each a text or token ids."""
    given = node.take("prompt")
    prompts = given if _several(given) else [given]
    if len(prompts) > MAX_CHOICES:
        node.fail("prompt", f"must hold {MAX_CHOICES} prompts at most, not {len(prompts)}")
    if not all(isinstance(prompt, str) or _is_ids(prompt) for prompt in prompts):
        node.fail("prompt", "must be a string, a list of strings, a list of token ids, or a list of such lists")
    return prompts


def _several(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and isinstance(given[0], str | list)


def _is_ids(prompt: Any) -> bool:
    return isinstance(prompt, list) and all(type(token) is int and 0 <= token <= MAX_TOKEN_ID for token in prompt)
