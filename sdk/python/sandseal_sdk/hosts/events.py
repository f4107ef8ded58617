"""Server-sent events whose data are JSON documents, as `generate_stream` answers them."""

import json
from collections.abc import Iterator
from typing import Any

from sandseal_sdk.errors import AnswerInvalid
from sandseal_sdk.hosts.answer import refusal


class EventParser:
    """Takes a stream in pieces, gives its events (WHATWG HTML, section 9.2); only their data are looked at."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The events that this piece completes.

        Raises:
            HostRefused: an event tells of an error, with which the stream ends.
            AnswerInvalid: an event's data are no JSON object.
        """
        *lines, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif not line and self._data:
                data, self._data = b"\n".join(self._data), []
                yield _document(data)


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise AnswerInvalid(f"an event is no JSON object: {data[:80]!r}")
    if "error" in document:
        status = document.get("status")
        raise refusal(status if type(status) is int else 500, data, {})
    return document
