"""An answer of either plane, before any server has seen it."""

from collections.abc import Mapping
from typing import Any

import orjson

from sandseal_host.tensors import record

Headers = tuple[tuple[bytes, bytes], ...]

JSON_TYPE = (b"content-type", b"application/json")
BINARY_TYPE = (b"content-type", b"application/octet-stream")


@record
class Answer:
    """A status, a body, and its headers without Content-Length (lower-case names, as ASGI wants them).

    Args:
        tail: what comes after `body`; memory that nobody changes while a view of it lives.
    """

    status: int
    body: bytes
    headers: Headers = (JSON_TYPE,)
    tail: tuple[memoryview, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of body and tail."""
        return len(self.body) + sum([view.nbytes for view in self.tail]) if self.tail else len(self.body)

    def whole(self) -> bytes:
        """Body and tail in one piece."""
        return b"".join((self.body, *self.tail)) if self.tail else self.body


def json_answer(document: Mapping[str, Any] | list[Any], status: int = 200, headers: Headers = ()) -> Answer:
    """An answer that carries `document` as JSON."""
    return Answer(status, orjson.dumps(document), (JSON_TYPE, *headers))
