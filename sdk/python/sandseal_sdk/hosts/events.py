"""Server-sent events whose data are JSON documents, as `generate_stream` answers them."""

import json
from collections.abc import Iterator
from typing import Any

from sandseal_sdk.errors import AnswerInvalid, AnswerTooLarge
from sandseal_sdk.hosts.answer import refusal

MAX_EVENT = 64 << 20  # bytes: a piece of text, or all tensors of a model that answers once


class EventParser:
    """Takes a stream in pieces, gives its events (WHATWG HTML, section 9.2); only their data are looked at."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the pieces of the one that has not ended
        self._data: list[bytes] = []
        self._size = 0  # that both came in

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The events that this piece completes.

        Raises:
            HostRefused: an event tells of an error, with which the stream ends.
            AnswerInvalid: an event's data are no JSON object.
            AnswerTooLarge: an event has no end.
        """
        self._line.append(piece)
        self._size += len(piece)
        if b"\n" in piece:
            yield from self._take()
        if self._size > MAX_EVENT:
            raise AnswerTooLarge(f"an event has over {MAX_EVENT} bytes", hint="ask the operator what answers there")

    def _take(self) -> Iterator[dict[str, Any]]:
        """The events that the lines so far complete."""
        *lines, rest = b"".join(self._line).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif not line and self._data:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                yield _document(data)
        self._line = [rest]
        if not self._data:
            self._size = len(rest)


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
