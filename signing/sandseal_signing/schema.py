"""Strict JSON, and one way to read closed documents: every member asked for, none left over.

Signed and operator-written documents are read only through here: duplicate keys, NaN, integers of 2^53 and
more, lone surrogates, deep nesting and unknown members are errors that name their place.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from sandseal_signing.errors import JsonInvalid, NameInvalid, SandsealError
from sandseal_signing.names import check_name

MAX_DEPTH = 16
MAX_INTEGER = 2**53 - 1

_ABSENT: Any = object()
# Possessive, and satisfied without a closing quote: each byte is looked at once, whatever the input.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(data: bytes, what: str) -> Any:
    """Parse UTF-8 JSON strictly (RFC 8259 within the limits of I-JSON, RFC 7493).

    Args:
        data: the document.
        what: its name, for errors.

    Raises:
        JsonInvalid: malformed, a duplicate member, NaN or Infinity, an integer of 2^53 or more, a lone surrogate,
            nesting over 16.
    """
    try:
        _check_depth(data)
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
        )
        if b"\\u" in data:  # only an escape can spell a lone surrogate, which no UTF-8 encoder takes
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise JsonInvalid(f"{what}: not strict JSON ({error})", where=what) from None
    return value


def _check_depth(data: bytes) -> None:
    """Refuse brackets that nest too deep outside strings, before any parser recurses."""
    depth = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"member {name[:80]!r} stands twice in one object")
        found[name] = value
    return found


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
        raise ValueError(f"the integer {text[:24]} is not below 2^53")
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {text[:24]} is beyond a double")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def canonical_json(value: Any) -> bytes:
    """RFC 8785 canonical JSON, for values with ASCII keys and without floats: the only ones that are signed."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


class Node:
    """One object of a closed document; each getter consumes a member, `close` refuses what is left.

    A getter with a `default` returns it when the member is absent; an explicit null is never "absent".

    Args:
        value: the parsed JSON or TOML object.
        path: where it stands, for errors (`model.inputs[0]`).
        error: the error class to raise.
    """

    def __init__(self, value: Any, path: str, error: type[SandsealError]) -> None:
        self.path = path
        self._error = error
        if not isinstance(value, dict):
            self.fail("", f"must be an object, not {_shown(value)}")
        self._left: dict[str, Any] = dict(value)

    def at(self, name: str) -> str:
        """The full path of member `name`, for errors."""
        shown = name if name.isprintable() and len(name) <= 80 else repr(name[:80])
        return f"{self.path}.{shown}" if self.path else shown

    def fail(self, name: str, why: str) -> NoReturn:
        """Raise this document's error at member `name`, or at the object itself when `name` is empty."""
        where = self.at(name) if name else self.path or "the document"
        raise self._error(f"{where}: {why}", where=where)

    def has(self, name: str) -> bool:
        """Whether the member is there and not yet taken."""
        return name in self._left

    def take(self, name: str, default: Any = _ABSENT) -> Any:
        """The raw member, whatever its type."""
        value = self._left.pop(name, default)
        if value is _ABSENT:
            self.fail(name, "is missing")
        return value

    def text(
        self,
        name: str,
        default: Any = _ABSENT,
        *,
        valid: Callable[[str], object] = bool,
        rule: str = "a non-empty string",
    ) -> Any:
        """A string that `valid` accepts; `rule` says which, for the error."""
        if self._defaults(name, default):
            return default
        value = self.take(name)
        if not (isinstance(value, str) and valid(value)):
            self.fail(name, f"must be {rule}, not {_shown(value)}")
        return value

    def integer(self, name: str, default: Any = _ABSENT, *, low: int = 0, high: int = MAX_INTEGER) -> Any:
        """An integer in low..high."""
        if self._defaults(name, default):
            return default
        value = self.take(name)
        if type(value) is not int or not low <= value <= high:
            self.fail(name, f"must be an integer from {low} to {high}, not {_shown(value)}")
        return value

    def integers(self, name: str, default: Any = _ABSENT, *, low: int = 0, high: int = MAX_INTEGER) -> Any:
        """A list of distinct integers in low..high, as a tuple."""
        if self._defaults(name, default):
            return default
        value = self.take(name)
        if not isinstance(value, list) or not all(type(item) is int and low <= item <= high for item in value):
            self.fail(name, f"must be a list of integers from {low} to {high}, not {_shown(value)}")
        if len(set(value)) != len(value):
            self.fail(name, "holds an integer twice")
        return tuple(value)

    def number(self, name: str, default: Any = _ABSENT, *, low: float, high: float) -> Any:
        """A number in low..high, an integer or not."""
        if self._defaults(name, default):
            return default
        value = self.take(name)
        if type(value) not in (int, float) or not low <= value <= high:
            self.fail(name, f"must be a number from {low} to {high}, not {_shown(value)}")
        return value

    def file(self, name: str, default: Any = _ABSENT) -> Any:
        """The name of a file that a bundle may hold."""
        return default if self._defaults(name, default) else self._file(name, self.text(name))

    def files(self, name: str, default: Any = _ABSENT) -> Any:
        """A list of distinct names of files that a bundle may hold, as a tuple."""
        if self._defaults(name, default):
            return default
        return tuple(self._file(name, file) for file in self.texts(name, rule="file names"))

    def texts(
        self,
        name: str,
        default: Any = _ABSENT,
        *,
        valid: Callable[[str], object] = bool,
        rule: str = "non-empty strings",
        least: int = 0,
    ) -> Any:
        """A list of at least `least` distinct strings that `valid` accepts, as a tuple."""
        if self._defaults(name, default):
            return default
        value = self.take(name)
        if not isinstance(value, list) or not all(isinstance(item, str) and valid(item) for item in value):
            self.fail(name, f"must be a list of {rule}, not {_shown(value)}")
        if len(set(value)) != len(value):
            self.fail(name, "holds a string twice")
        if len(value) < least:
            self.fail(name, f"must hold at least {least}")
        return tuple(value)

    def flag(self, name: str, default: Any = _ABSENT) -> Any:
        """True or false."""
        value = self.take(name, default)
        if value is not True and value is not False:
            self.fail(name, f"must be true or false, not {_shown(value)}")
        return value

    def child(self, name: str, default: Any = _ABSENT) -> Any:
        """A nested object as a `Node`."""
        return default if self._defaults(name, default) else Node(self.take(name), self.at(name), self._error)

    def children(self, name: str, default: Any = _ABSENT) -> "list[Node]":
        """A list of objects as `Node`s."""
        value = self.take(name, default)
        if not isinstance(value, list):
            self.fail(name, f"must be a list of objects, not {_shown(value)}")
        return [Node(item, f"{self.at(name)}[{i}]", self._error) for i, item in enumerate(value)]

    def rest(self) -> Iterator[str]:
        """The names not yet taken, for objects that map free names to things."""
        return iter(list(self._left))

    def close(self) -> None:
        """Refuse members that nobody asked for."""
        for name in self._left:
            self.fail(name, "is not a member of this schema")

    def _file(self, name: str, file: str) -> str:
        try:
            return check_name(file)
        except NameInvalid as error:
            self.fail(name, error.message)

    def _defaults(self, name: str, default: Any) -> bool:
        return default is not _ABSENT and name not in self._left


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
