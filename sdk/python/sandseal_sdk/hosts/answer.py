"""A host's answer, and what a refusal among them is raised as."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sandseal_sdk.errors import (
    AnswerInvalid,
    AnswerTooLarge,
    DeadlinePassed,
    HostBusy,
    HostConflict,
    HostFailed,
    HostRefused,
    NotAllowed,
    NotFound,
    RequestRefused,
)

_FAMILIES: dict[int, type[HostRefused]] = {
    401: NotAllowed, 403: NotAllowed, 404: NotFound, 408: DeadlinePassed, 409: HostConflict, 410: NotFound,
    429: HostBusy, 501: RequestRefused, 503: HostBusy, 504: DeadlinePassed,
}  # fmt: skip
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer that was read to its end.

    Args:
        headers: by lower-case name.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The document that it carries.

        Raises:
            AnswerInvalid: it carries none.
        """
        try:
            return json.loads(self.content)
        except ValueError:
            start = self.content[:80].decode("utf-8", errors="replace")
            raise AnswerInvalid(f"the answer is no JSON document: {start!r}") from None


class Reading:
    """An answer while it is read.

    Args:
        headers: as they came.
        most: bytes that its body may have.

    Raises:
        AnswerTooLarge: its head says that it has more.
    """

    def __init__(self, status: int, headers: Iterable[tuple[str, str]], most: int) -> None:
        self._status, self._most = status, most
        self._headers = {name.lower(): value for name, value in headers}
        self._pieces: list[bytes] = []
        self._size = 0
        declared = self._headers.get("content-length", "")
        self._check(int(declared) if declared.isdecimal() and len(declared) < 20 else 0)

    def take(self, piece: bytes) -> None:
        """Keep what comes next.

        Raises:
            AnswerTooLarge: it is more than may come.
        """
        self._size += len(piece)
        self._check(self._size)
        self._pieces.append(piece)

    def answer(self) -> Answer:
        """The answer, which has been read."""
        return Answer(self._status, self._headers, b"".join(self._pieces))

    def _check(self, size: int) -> None:
        if size > self._most:
            raise AnswerTooLarge(f"the answer has {size} bytes or more, over {self._most}")


def require(answer: Answer, accept: tuple[int, ...] = ()) -> Answer:
    """The answer, if it is a success or has one of these statuses.

    Raises:
        HostRefused: the subclass for its status.
    """
    if answer.status // 100 == 2 or answer.status in accept:
        return answer
    raise refusal(answer.status, answer.content, answer.headers)


def refusal(status: int, content: bytes, headers: Mapping[str, str]) -> HostRefused:
    """What the host refuses, of the family that its status means; what is not from our host is told as it is."""
    try:
        facts = json.loads(content)
        message, code, hint = facts.pop("error"), facts.pop("code", "unknown"), facts.pop("hint", None)
        if not all(isinstance(each, str) for each in (message, code, hint or "")):
            raise ValueError(content)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        facts, code, hint = {}, "unknown", None
        message = content[:200].decode("utf-8", errors="replace") or f"status {status}"
    wait = headers.get("retry-after", "")
    return family(status)(
        message,
        status=status,
        code=code,
        hint=hint,
        retry_after=float(wait) if _SECONDS.fullmatch(wait) else None,
        request_id=headers.get("x-request-id"),
        facts=facts,
    )


def family(status: int) -> type[HostRefused]:
    """The class of refusals with this status."""
    return _FAMILIES.get(status) or (RequestRefused if status < 500 else HostFailed)
