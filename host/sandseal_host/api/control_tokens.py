"""The control plane's tokens: issue, list, revoke."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.body import read_body
from sandseal_host.api.errors import RouteUnknown
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import TokenEntry, Tokens
from sandseal_host.errors import NotPermitted, RequestInvalid
from sandseal_host.registry.tokens import LEAST_RATE, MOST_RATE, Rate, Scope
from sandseal_host.serving.request import CLASSES


class TokenRequest(BaseModel):
    """The token that an operator asks for."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=128)
    scopes: list[Scope] = Field(min_length=1)
    tenant: str = Field("default", min_length=1, max_length=128)
    models: str = Field("*", min_length=1, max_length=128)
    ceiling: Literal["realtime", "standard", "batch"] = "realtime"
    requests_s: float | None = Field(None, ge=LEAST_RATE, le=MOST_RATE)
    rows_s: float | None = Field(None, ge=LEAST_RATE, le=MOST_RATE)
    expires: AwareDatetime | None = Field(None, strict=True)  # a text, as the document says; no number


class IssuedToken(BaseModel):
    """A new token with its secret, which is shown this once."""

    token: TokenEntry
    secret: str


_TOKEN_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": TokenRequest.model_json_schema()}}}
}


def add_token_routes(control: FastAPI, tokens: Tokens, door: Doorkeeper) -> None:
    """Add the routes under /v1/tokens, for operators."""
    operator = permit(door, Scope.OPERATE)

    @control.post("/v1/tokens", status_code=201, summary="Issue a token", openapi_extra=_TOKEN_BODY)
    async def issue(request: Request, grant: Annotated[Grant, operator]) -> IssuedToken:
        wanted, expires = _parse(await read_body(request))
        _check_within(grant, wanted)
        entry, secret = await run_in_threadpool(tokens.issue, wanted, expires)
        return IssuedToken(token=entry, secret=secret)

    @control.get("/v1/tokens", summary="The tokens in force, of models within reach")
    def entries(grant: Annotated[Grant, operator]) -> list[TokenEntry]:
        return [entry for entry in tokens.entries() if grant.models in ("*", entry.models)]

    @control.delete("/v1/tokens/{token_id}", status_code=204, summary="Revoke a token")
    def revoke(token_id: str, grant: Annotated[Grant, operator]) -> None:
        if token_id not in {entry.id for entry in entries(grant)} or not tokens.revoke(token_id):
            raise RouteUnknown(f"no token {token_id[:80]!r}", hint="GET /v1/tokens lists those in force")
        door.forget(token_id)


def _parse(body: bytes) -> tuple[Grant, datetime | None]:
    try:
        wanted = TokenRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RequestInvalid(
            f"the token asked for: {where or 'body'}: {first['msg']}",
            hint='send {"name": ..., "scopes": [...]}, and what else matters: ' + ", ".join(TokenRequest.model_fields),
            where=where,
        ) from None
    grant = Grant(
        wanted.name,
        frozenset(wanted.scopes),
        wanted.tenant,
        wanted.models,
        ceiling=CLASSES[wanted.ceiling],
        rate=Rate(wanted.requests_s, wanted.rows_s),
    )
    return grant, wanted.expires


def _check_within(issuer: Grant, wanted: Grant) -> None:
    """No token makes one that reaches further than itself."""
    beyond = sorted(wanted.scopes - issuer.scopes)
    if beyond:
        raise NotPermitted(f"the token {issuer.name!r} cannot give the scopes {beyond}", needed=beyond)
    if issuer.models not in ("*", wanted.models):
        raise NotPermitted(f"the token {issuer.name!r} reaches the models {issuer.models!r} only")
    if issuer.lower(wanted.ceiling) is not wanted.ceiling:
        raise NotPermitted(f"the token {issuer.name!r} reaches the class {issuer.ceiling.name!r} only")
    if not wanted.rate.within(issuer.rate):
        raise NotPermitted(f"the token {issuer.name!r} cannot give a rate above its own")
