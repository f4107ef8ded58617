"""How likely tokens were, in the two forms that OpenAI has for it."""

from collections.abc import Sequence
from typing import Any

from sandseal_host.serving.generation.request import Piece
from sandseal_host.serving.generation.vocabulary import Vocabulary

_LEAST = -9999.0  # OpenAI's word for what cannot be; JSON has no infinity


def chat_logprobs(pieces: Sequence[Piece], vocabulary: Vocabulary) -> dict[str, Any] | None:
    """Chat's form: tokens with their bytes; None where the request asked for none."""
    found = [entry for piece in pieces for entry in piece.logprobs or ()]
    if not found:
        return None
    content = [
        _entry(entry.token, entry.logprob, vocabulary)
        | {"top_logprobs": [_entry(token, logprob, vocabulary) for token, logprob in entry.top]}
        for entry in found
    ]
    return {"content": content, "refusal": None}


def text_logprobs(pieces: Sequence[Piece], vocabulary: Vocabulary, offset: int) -> dict[str, Any] | None:
    """The plain completions' form: lists side by side.

    Args:
        offset: characters of the answer that stand before these pieces.
    """
    found = [entry for piece in pieces for entry in piece.logprobs or ()]
    if not found:
        return None
    tokens = [_shown(entry.token, vocabulary) for entry in found]
    offsets = [offset + sum(map(len, tokens[:i])) for i in range(len(tokens))]
    return {
        "tokens": tokens,
        "token_logprobs": [max(entry.logprob, _LEAST) for entry in found],
        "top_logprobs": [{_shown(token, vocabulary): max(p, _LEAST) for token, p in entry.top} for entry in found],
        "text_offset": offsets,
    }


def _entry(token: int, logprob: float, vocabulary: Vocabulary) -> dict[str, Any]:
    content = vocabulary.bytes_of(token)
    return {"token": _shown(token, vocabulary), "logprob": max(logprob, _LEAST), "bytes": list(content)}


def _shown(token: int, vocabulary: Vocabulary) -> str:
    return vocabulary.bytes_of(token).decode("utf-8", "replace")
