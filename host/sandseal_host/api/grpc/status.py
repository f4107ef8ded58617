"""Errors as gRPC statuses: the codes that fit the statuses of the one problem table."""

from dataclasses import dataclass
from typing import NoReturn

import orjson
from grpc import StatusCode, aio

from sandseal_host.api.problems import problem

_CODES = {
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    408: StatusCode.DEADLINE_EXCEEDED,
    409: StatusCode.FAILED_PRECONDITION,
    410: StatusCode.FAILED_PRECONDITION,
    413: StatusCode.RESOURCE_EXHAUSTED,
    429: StatusCode.RESOURCE_EXHAUSTED,
    499: StatusCode.CANCELLED,
    501: StatusCode.UNIMPLEMENTED,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.DEADLINE_EXCEEDED,
}
_MAX_TEXT = 2_000  # characters: it is sent as a header, where clients take 8 KiB of all together, percent-encoded


@dataclass(frozen=True, slots=True)
class Failure:
    """What a caller is told.

    Args:
        code: gRPC's.
        text: what was wrong, and what to do.
        metadata: `sandseal-code`, the stable code, and `retry-after` in seconds where it is worth it.
    """

    code: StatusCode
    text: str
    metadata: tuple[tuple[str, str], ...]


def explain(error: Exception) -> Failure:
    """What is told of an error, whatever it is."""
    answer = problem(error)
    document = orjson.loads(answer.body)
    again = [("retry-after", value.decode()) for name, value in answer.headers if name == b"retry-after"]
    text = f"{document['error']}; {document['hint']}" if document["hint"] else document["error"]
    if len(text) > _MAX_TEXT:
        text = text[:_MAX_TEXT] + "…"
    return Failure(_CODES.get(answer.status, StatusCode.INTERNAL), text, (("sandseal-code", document["code"]), *again))


async def abort(context: aio.ServicerContext, error: Exception) -> NoReturn:
    """End a call with an error."""
    failure = explain(error)
    await context.abort(failure.code, failure.text, failure.metadata)
    raise error
