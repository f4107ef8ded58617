"""Errors as JSON, for what passes between the host and processes of its own."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sandseal_signing.errors import SandsealError

_MAX_MESSAGE, _MAX_DATA = 5_000, 64_000  # characters; the longest that a plugin may cause is its refusal of 4,097


def error_members(error: SandsealError) -> dict[str, Any]:
    """An error as JSON; without its data where a hostile model or plugin made that long."""
    data = error.data if len(json.dumps(error.data)) <= _MAX_DATA else {}
    return {"code": error.code, "message": error.message[:_MAX_MESSAGE], "hint": error.hint, "data": data}


def rebuilt_error(code: str, message: str, hint: str, data: Mapping[str, Any]) -> SandsealError | None:
    """The error of the class that has this code; None where there is none."""
    kind = next((kind for kind in error_kinds() if vars(kind).get("code") == code), None)
    if kind is None:
        return None
    error = kind(message, hint=hint)
    error.data = dict(data)
    return error


def error_kinds(kind: type[SandsealError] = SandsealError) -> Iterator[type[SandsealError]]:
    """A class of errors and all below it that this process has loaded."""
    yield kind
    for narrower in kind.__subclasses__():
        yield from error_kinds(narrower)
