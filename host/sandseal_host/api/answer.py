"""An answer of either plane, before any server has seen it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

Headers = tuple[tuple[bytes, bytes], ...]

JSON_TYPE = (b"content-type", b"application/json")
BINARY_TYPE = (b"content-type", b"application/octet-stream")


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body, and its headers without Content-Length (lower-case names, as ASGI wants them)."""

    status: int
    body: bytes
    headers: Headers = (JSON_TYPE,)


def json_answer(document: Mapping[str, Any] | list[Any], status: int = 200, headers: Headers = ()) -> Answer:
    """An answer that carries `document` as JSON."""
    return Answer(status, orjson.dumps(document), (JSON_TYPE, *headers))
