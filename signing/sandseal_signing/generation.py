"""A bundle's `generation` member: what a host needs to turn a decoder's token ids into text and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandseal_signing.schema import Node

MAX_CONTEXT = 2**24
MAX_TOKEN_ID = 2**31 - 1

_NUMBERS = {"temperature": (0, 100), "top_p": (0, 1), "min_p": (0, 1), "repetition_penalty": (0.01, 100)}
_INTEGERS = {"top_k": (0, MAX_TOKEN_ID), "max_tokens": (1, MAX_CONTEXT)}


@dataclass(frozen=True, slots=True)
class GenerationSpec:
    """How a decoder-only language model generates text.

    Args:
        tokenizer: the signed `tokenizer.json`.
        context: the most positions of a sequence, prompt and answer together.
        stop_ids: tokens that end a sequence.
        chat_template: the signed Jinja template that makes a prompt of messages.
        add_bos: a token to be put before every prompt that is plain text.
        defaults: for requests that do not say: `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty`,
            `max_tokens`.
    """

    tokenizer: str
    context: int
    stop_ids: tuple[int, ...] = ()
    chat_template: str | None = None
    add_bos: int | None = None
    defaults: Mapping[str, float | int] = field(default_factory=dict)

    @property
    def files(self) -> frozenset[str]:
        """The files that it names, and so must be signed."""
        return frozenset(name for name in (self.tokenizer, self.chat_template) if name)


def read_generation(node: Node) -> GenerationSpec:
    """Read the member and close the node; the node's own error class is raised."""
    defaults = node.child("defaults", None)
    spec = GenerationSpec(
        tokenizer=node.file("tokenizer"),
        context=node.integer("context", low=1, high=MAX_CONTEXT),
        stop_ids=node.integers("stop_ids", (), high=MAX_TOKEN_ID),
        chat_template=node.file("chat_template", None),
        add_bos=node.integer("add_bos", None, high=MAX_TOKEN_ID),
        defaults=_defaults(defaults) if defaults else {},
    )
    node.close()
    return spec


def _defaults(node: Node) -> Mapping[str, float | int]:
    found = {n: node.number(n, low=low, high=high) for n, (low, high) in _NUMBERS.items() if node.has(n)}
    found |= {n: node.integer(n, low=low, high=high) for n, (low, high) in _INTEGERS.items() if node.has(n)}
    node.close()
    return found
