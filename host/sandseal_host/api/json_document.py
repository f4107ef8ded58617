"""The JSON part of a request: fast by orjson, by the standard library where orjson would be wrong.

orjson refuses NaN and Infinity, which Triton's clients send, and takes the last of two members of one name without a
word. The number of colons tells whether that can have happened: outside strings each belongs to one member.
"""

import json
import re
from collections import Counter
from typing import Any, NoReturn

import orjson

from sandseal_host.api.settings import JsonLimits
from sandseal_host.errors import RequestInvalid, TooLarge

JsonObject = dict[str, Any]

# Possessive, and satisfied without a closing quote: each byte is looked at once, whatever the text.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = ord("[")
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_LIMITS = JsonLimits()


def load_object(text: bytes, what: str = "the request", limits: JsonLimits = _LIMITS) -> JsonObject:
    """Parse a JSON object in UTF-8; NaN, Infinity and -Infinity count as numbers.

    Args:
        text: the document.
        what: its name, for errors.
        limits: how many values it may have, and how deep they may nest.

    Raises:
        RequestInvalid: not JSON, nested too deep, a member named twice, or not an object.
        TooLarge: it has too many values.
    """
    check_limits(text, what, limits)
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in text and b"Infinity" not in text:
            _refuse(what, error)
        document = _load_slowly(text, what)
    else:
        if text.count(b":") != _members(document):
            document = _load_slowly(text, what)
    if type(document) is not dict:
        raise RequestInvalid(f"{what} is not a JSON object")
    return document


def check_limits(text: bytes, what: str, limits: JsonLimits = _LIMITS) -> None:
    """Refuse, before it is parsed, what would make more or deeper objects than a request needs.

    Args:
        text, what, limits: see `load_object`.

    Raises:
        RequestInvalid: nested too deep.
        TooLarge: it has too many values.
    """
    if (commas := text.count(b",")) >= limits.values:
        raise TooLarge(
            f"{what} has over {limits.values} values",
            hint="send tensors as binary, or ask the operator to raise SANDSEAL_MAX_JSON_VALUES",
            limit=limits.values, got=commas + 1,
        )  # fmt: skip
    brackets = text.translate(_ONE_KIND, _NO_BRACKETS)
    for _ in range(limits.depth):  # each round takes the innermost away
        if not brackets:
            return
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        _check_depth(_STRING.sub(b"", text), what, limits.depth)


def _check_depth(text: bytes, what: str, limit: int) -> None:
    """Count the brackets of a text without its strings, which may have held some."""
    depth = 0
    for bracket in text.translate(_ONE_KIND, _NO_BRACKETS):
        depth += 1 if bracket == _OPENING else -1
        if depth > limit:
            raise RequestInvalid(f"{what} nests deeper than {limit} levels", limit=limit)


def _members(document: Any) -> int:
    """Members of the objects that an inference request is made of; not more than the document has."""
    if type(document) is not dict:
        return 0
    count = len(document) + _children(document.get("parameters"))
    for tensors in (document.get("inputs"), document.get("outputs")):
        if type(tensors) is list:
            for tensor in tensors:
                if type(tensor) is dict:
                    count += len(tensor) + _children(tensor.get("parameters"))
    return count


def _children(value: Any) -> int:
    return len(value) if type(value) is dict else 0


def _load_slowly(text: bytes, what: str) -> Any:
    """The same document by the standard library, which lets every member be looked at."""

    def unique(members: list[tuple[str, Any]]) -> JsonObject:
        found = dict(members)
        if len(found) != len(members):
            ((twice, _),) = Counter(name for name, _ in members).most_common(1)
            raise RequestInvalid(f"{what}: member {twice[:80]!r} stands twice in one object")
        for part in (*found, *found.values()):
            if type(part) is str:
                part.encode()  # half of a surrogate pair is no text
        return found

    try:
        return json.loads(text.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        _refuse(what, error)


def _refuse(what: str, error: Exception) -> NoReturn:
    raise RequestInvalid(f"{what} is not JSON ({error})", hint="send UTF-8 JSON") from None
