"""What a model's files say of it, read with the type that each thing should have."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from sandseal_sdk.errors import ModelUnreadable

_ABSENT: Any = object()


class Facts:
    """Values by key.

    Args:
        values: what was read.
        where: the file that says so, for errors.
        prefix: put before each key.
    """

    def __init__(self, values: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self._values, self._where, self._prefix = values, where, prefix

    @classmethod
    def load(cls, path: Path, *, needed: bool = False) -> "Facts":
        """A file with a JSON object; an absent file says nothing, unless it is needed.

        Raises:
            ModelUnreadable: it cannot be read, or holds something else.
        """
        try:
            values = json.loads(path.read_bytes())
        except FileNotFoundError:
            if needed:
                raise ModelUnreadable(f"{path.parent} has no {path.name}", hint="give the model's own folder") from None
            values = {}
        except (OSError, ValueError, RecursionError) as error:
            raise ModelUnreadable(f"{path} cannot be read as JSON: {error}") from None
        if not isinstance(values, dict):
            raise ModelUnreadable(f"{path} is not a JSON object")
        return cls(values, path.name)

    def under(self, prefix: str) -> "Facts":
        """The same facts, with another prefix."""
        return Facts(self._values, self._where, prefix)

    def get(self, key: str, default: Any = None) -> Any:
        """Whatever is there; null counts as absent."""
        value = self._values.get(self._prefix + key)
        return default if value is None else value

    def child(self, key: str) -> "Facts":
        """An object; an absent one says nothing."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            self._fail(key, value, "an object")
        return Facts(value, f"{self._where} {self._prefix}{key}")

    def text(self, key: str, default: str = _ABSENT) -> str:
        """A text."""
        value = self.get(key, default)
        if not isinstance(value, str):
            self._fail(key, value, "a text")
        return value

    def count(self, key: str, default: int = _ABSENT) -> int:
        """An integer from 0 on; where there is one for each layer, all must be the same."""
        value = self.get(key, default)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if type(value) is not int or not 0 <= value < 2**31:
            self._fail(key, value, "a count")
        return value

    def number(self, key: str, default: float = _ABSENT) -> float:
        """A finite number over 0."""
        value = self.get(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            self._fail(key, value, "a number over 0")
        return float(value)

    def list_of(self, key: str, kind: type) -> list[Any]:
        """A list whose members are all of one type."""
        value = self.get(key)
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            self._fail(key, value, f"a list of {kind.__name__}")
        return value

    def numbers(self, names: Mapping[str, str]) -> dict[str, float | int]:
        """Those of some keys that hold a number, each under another name."""
        found = {ours: self.get(theirs) for theirs, ours in names.items()}
        return {ours: value for ours, value in found.items() if type(value) in (int, float)}

    def _fail(self, key: str, value: Any, what: str) -> NoReturn:
        said = "nothing" if value is _ABSENT or value is None else f"{value!r:.60}"
        raise ModelUnreadable(f"{self._where} says {said} for {self._prefix}{key}, which must be {what}")
