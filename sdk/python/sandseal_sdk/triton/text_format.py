"""Protobuf's text form, read without a schema."""

import re
from typing import Any

from google.protobuf.text_format import Tokenizer

_WORD = re.compile(r"[\w.+-]", re.ASCII)

Message = dict[str, list[Any]]
"""Names with all of their values: numbers, booleans, text, messages; enumerators are text."""


def parse_text_format(text: str) -> Message:
    """A message in text form.

    Raises:
        ParseError: it is none (of `google.protobuf.text_format`).
    """
    return _message(Tokenizer(text.splitlines()), None)


def take(fields: Message, name: str, default: Any) -> Any:
    """Take a member out; its last value counts, as in protobuf."""
    return fields.pop(name, [default])[-1]


def _message(tokens: Tokenizer, end: str | None) -> Message:
    fields: Message = {}
    while not (tokens.AtEnd() if end is None else tokens.TryConsume(end)):
        values = fields.setdefault(tokens.ConsumeIdentifier(), [])
        colon = tokens.TryConsume(":")
        if tokens.TryConsume("["):
            while not tokens.TryConsume("]"):
                values.append(_value(tokens, colon))
                tokens.TryConsume(",")
        else:
            values.append(_value(tokens, colon))
        tokens.TryConsume(",") or tokens.TryConsume(";")
    return fields


def _value(tokens: Tokenizer, colon: bool) -> Any:
    for start, end in (("{", "}"), ("<", ">")):
        if tokens.TryConsume(start):
            return _message(tokens, end)
    if not colon:
        raise tokens.ParseError("expected a message, or ':' and a value")
    return tokens.ConsumeString() if tokens.token[:1] in ('"', "'") else _plain(tokens)


def _plain(tokens: Tokenizer) -> bool | int | float | str:
    text = str(tokens.token)
    if not _WORD.match(text):
        raise tokens.ParseError("expected a value")
    tokens.NextToken()
    if text in ("true", "false"):
        return text == "true"
    for number in (lambda: int(text, 0), lambda: float(text.removesuffix("f"))):
        try:
            return number()
        except ValueError:
            continue
    return text
