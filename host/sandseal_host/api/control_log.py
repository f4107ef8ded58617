"""The control plane's transparency log: checkpoint, entries, proofs, and the keys that all of it is verified with."""

from typing import Annotated

from fastapi import FastAPI, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.grant import Grant
from sandseal_host.api.log_port import Log, Receipts
from sandseal_host.api.permit import permit
from sandseal_host.errors import RequestInvalid
from sandseal_host.registry.tokens import Scope
from sandseal_signing.merkle import encode_hash

_Number = Annotated[int | None, Query(ge=0)]


class _Lines(Response):
    media_type = "application/jsonl"


class HostKeys(BaseModel):
    """The host's public keys: the log's verifier key, and the receipts' in one line.

    Whoever takes them from here believes the host; an auditor gets them from the operator.
    """

    log: str
    receipt: str


def add_log_routes(control: FastAPI, log: Log, receipts: Receipts, door: Doorkeeper) -> None:
    """Add the routes under /v1/log: the keys for every token, the rest for auditors and operators."""
    readers = permit(door, Scope.AUDIT, Scope.OPERATE)

    @control.get("/v1/log/keys", summary="The public keys of the log and of receipts")
    def keys(_: Annotated[Grant, permit(door)]) -> HostKeys:
        return HostKeys(log=log.verifier.render(), receipt=receipts.public.inline)

    @control.get(
        "/v1/log/checkpoint", summary="The newest checkpoint, as a signed note", response_class=PlainTextResponse
    )
    def checkpoint(grant: Annotated[Grant, readers]) -> Response:
        grant.need_all_models()
        return _text(log.checkpoint())

    @control.get(
        "/v1/log/entries",
        summary="Entries from `start` on and before `end`, one a line; maybe fewer",
        response_class=_Lines,
    )
    def entries(
        grant: Annotated[Grant, readers], start: Annotated[int, Query(ge=0)], end: Annotated[int, Query(ge=0)]
    ) -> Response:
        grant.need_all_models()
        lines = b"".join(entry + b"\n" for entry in log.entries(start, end))
        return _Lines(lines)

    @control.get(
        "/v1/log/proof",
        summary="That an entry is in the log, or that one size continues another",
        response_class=PlainTextResponse,
    )
    def proof(
        grant: Annotated[Grant, readers],
        index: _Number = None,
        size: _Number = None,
        old: _Number = None,
        new: _Number = None,
    ) -> Response:
        grant.need_all_models()
        if index is not None and old is None and new is None:
            return _text(log.prove(index, size).render())
        if old is not None and new is not None and index is None and size is None:
            return _text(b"".join(f"{encode_hash(value)}\n".encode() for value in log.consistency(old, new)))
        raise RequestInvalid(
            "a proof is of an entry, or between two sizes", hint="ask with index, or index and size, or old and new"
        )


def _text(data: bytes) -> Response:
    return PlainTextResponse(data)
