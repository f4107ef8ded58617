"""Strict JSON, and one way to read closed documents: every member asked for, none left over.

Signed and operator-written documents are read only through here: duplicate keys, NaN, integers of 2^53 and
more, deep nesting and unknown members are errors that name their place.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from sandseal_signing.errors import FormatError, JsonInvalid

MAX_DEPTH = 16
MAX_INTEGER = 2**53 - 1

_MISSING: Any = object()
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


def parse_json(data: bytes, what: str) -> Any:
    """Parse UTF-8 JSON strictly.

    Args:
        data: the document.
        what: its name, for errors.

    Raises:
        JsonInvalid: malformed, duplicate keys, NaN or Infinity, an integer beyond 2^53, nesting over 16.
    """

    def fail(why: str) -> NoReturn:
        raise JsonInvalid(f"{what}: {why}", where=what)

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(members)
        if len(found) != len(members):
            names = [name for name, _ in members]
            fail(f"member {next(n for n in names if names.count(n) > 1)!r} stands twice in one object")
        return found

    def integer(text: str) -> int:
        if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
            fail(f"the integer {text[:24]} is beyond 2^53")
        return int(text)

    if _too_deep(data):
        fail(f"nested deeper than {MAX_DEPTH} levels")
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=pairs,
            parse_int=integer,
            parse_constant=lambda name: fail(f"{name} is not JSON"),
        )
    except (ValueError, RecursionError) as error:
        fail(f"not JSON ({error})")


def _too_deep(data: bytes) -> bool:
    """Whether brackets outside strings nest too deep; checked before any parser recurses."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def canonical_json(value: Any) -> bytes:
    """RFC 8785 canonical JSON for values without floats (the only ones that we sign)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


class Node:
    """One object of a closed document; each getter consumes a member, `close` refuses what is left.

    Args:
        value: the parsed JSON or TOML object.
        path: where it stands, for errors (`model.inputs[0]`).
        error: the error class to raise.
    """

    def __init__(self, value: Any, path: str, error: type[FormatError] | type[Any]) -> None:
        self.path = path
        self._error = error
        if not isinstance(value, dict):
            self.fail("", f"must be an object, not {_kind(value)}")
        self._left: dict[str, Any] = dict(value)

    def fail(self, name: str, why: str) -> NoReturn:
        """Raise this document's error at member `name`."""
        where = f"{self.path}.{name}".strip(".") if name else self.path or "the document"
        raise self._error(f"{where}: {why}", where=where)

    def take(self, name: str, default: Any = _MISSING) -> Any:
        """The raw member, whatever its type."""
        value = self._left.pop(name, default)
        if value is _MISSING:
            self.fail(name, "is missing")
        return value

    def has(self, name: str) -> bool:
        """Whether the member is there and not yet taken."""
        return name in self._left

    def text(self, name: str, default: Any = _MISSING, *, valid: Callable[[str], bool] = bool) -> Any:
        """A non-empty string that `valid` accepts."""
        value = self.take(name, default)
        if value is not default and not (isinstance(value, str) and valid(value)):
            self.fail(name, f"{_shown(value)} is not a valid value")
        return value

    def integer(self, name: str, default: Any = _MISSING, *, low: int = 0, high: int = MAX_INTEGER) -> Any:
        """An integer in low..high."""
        value = self.take(name, default)
        if value is not default and (type(value) is not int or not low <= value <= high):
            self.fail(name, f"must be an integer from {low} to {high}, not {_shown(value)}")
        return value

    def texts(self, name: str, default: Any = _MISSING, *, valid: Callable[[str], bool] = bool) -> Any:
        """A list of distinct strings that `valid` accepts, as a tuple."""
        value = self.take(name, default)
        if value is default:
            return value
        if not isinstance(value, list) or not all(isinstance(item, str) and valid(item) for item in value):
            self.fail(name, f"must be a list of valid strings, not {_shown(value)}")
        if len(set(value)) != len(value):
            self.fail(name, "holds a string twice")
        return tuple(value)

    def child(self, name: str, default: Any = _MISSING) -> Any:
        """A nested object as a `Node`."""
        value = self.take(name, default)
        return value if value is default else Node(value, f"{self.path}.{name}".strip("."), self._error)

    def children(self, name: str, default: Any = _MISSING) -> "list[Node]":
        """A list of objects as `Node`s."""
        value = self.take(name, default)
        if not isinstance(value, list):
            self.fail(name, f"must be a list, not {_kind(value)}")
        return [Node(item, f"{self.path}.{name}[{i}]".strip("."), self._error) for i, item in enumerate(value)]

    def rest(self) -> Iterator[str]:
        """The names not yet taken, for objects that map free names to things."""
        return iter(list(self._left))

    def close(self) -> None:
        """Refuse members that nobody asked for."""
        for name in self._left:
            self.fail(name, "is not a member of this schema")


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
