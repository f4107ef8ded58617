"""The control plane's trust: the policy in force, revocations, and downgrade permits."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.body import read_body
from sandseal_host.api.control_bundles import visible_bundle
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import Bundles
from sandseal_host.api.trust_port import PermitEntry, RevocationEntry, Trust, Withdrawn
from sandseal_host.errors import RequestInvalid
from sandseal_host.registry.revocations import Target
from sandseal_host.registry.tokens import Scope
from sandseal_signing.document import TRUST_TYPE
from sandseal_signing.envelope import MAX_FILE_BYTES
from sandseal_signing.permit import MAX_BYTES, PERMIT_TYPE

M = TypeVar("M", bound=BaseModel)


def _envelope(over: str, payload_type: str) -> dict[str, Any]:
    """A signed body in the OpenAPI document."""
    return {
        "requestBody": {
            "required": True,
            "description": f"A DSSE envelope over {over}, of type {payload_type}.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    }


_POLICY_BODY = _envelope("the new trust file", TRUST_TYPE)
_PERMIT_BODY = _envelope("a downgrade permit", PERMIT_TYPE)


class RevocationRequest(BaseModel):
    """What an operator revokes."""

    model_config = ConfigDict(extra="forbid")

    target: Target
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    reason: str = Field("", max_length=500)


class Question(BaseModel):
    """What somebody wants explained: a model's name and a key, or a bundle that is here."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, min_length=1, max_length=128)
    key: str | None = Field(None, min_length=1, max_length=4096)
    bundle: str | None = Field(None, pattern="^[0-9a-f]{64}$")


class Revoking(BaseModel):
    """The models that a revocation took out of service."""

    withdrawn: list[Withdrawn]


def add_trust_routes(control: FastAPI, trust: Trust, bundles: Bundles, door: Doorkeeper) -> None:
    """Add the routes under /v1/trust and /v1/revocations."""
    _add_permit_routes(control, trust, door)
    readers = permit(door, Scope.TRUST, Scope.OPERATE, Scope.AUDIT)
    askers = permit(door, Scope.TRUST, Scope.OPERATE, Scope.AUDIT, Scope.PUBLISH)
    trusted = permit(door, Scope.TRUST)

    @control.get("/v1/trust", summary="The trust policy in force")
    def policy(_: Annotated[Grant, readers]) -> Mapping[str, Any]:
        return trust.policy()

    @control.put("/v1/trust", summary="Put a policy in force that its root signed", openapi_extra=_POLICY_BODY)
    async def replace(request: Request, grant: Annotated[Grant, trusted]) -> Mapping[str, Any]:
        return await run_in_threadpool(trust.replace, await read_body(request, MAX_FILE_BYTES), grant)

    @control.post("/v1/trust/explain", summary="Why a signature counts or not", openapi_extra=_body(Question))
    async def explain(request: Request, grant: Annotated[Grant, askers]) -> Mapping[str, Any]:
        asked = _parse(Question, await read_body(request))
        if asked.bundle is not None and asked.name is None and asked.key is None:
            bundle = await run_in_threadpool(visible_bundle, bundles, asked.bundle, grant)
            return await run_in_threadpool(trust.explain_bundle, bundle.id)
        if asked.name is None or asked.key is None or asked.bundle is not None:
            raise RequestInvalid("ask about a name and a key, or about a bundle", hint='{"name": ..., "key": ...}')
        grant.need_model(asked.name)
        return await run_in_threadpool(trust.explain, asked.name, asked.key)

    @control.get("/v1/revocations", summary="Every revocation")
    def revocations(_: Annotated[Grant, readers]) -> list[RevocationEntry]:
        return list(trust.revocations())

    @control.post("/v1/revocations", status_code=201, summary="Revoke for ever", openapi_extra=_body(RevocationRequest))
    async def revoke(request: Request, grant: Annotated[Grant, trusted]) -> Revoking:
        wanted = _parse(RevocationRequest, await read_body(request))
        gone = await run_in_threadpool(trust.revoke, wanted.target, wanted.digest, wanted.reason, grant)
        return Revoking(withdrawn=list(gone))


def _add_permit_routes(control: FastAPI, trust: Trust, door: Doorkeeper) -> None:
    bringers = permit(door, Scope.TRUST, Scope.PUBLISH)
    askers = permit(door, Scope.TRUST, Scope.OPERATE, Scope.AUDIT, Scope.PUBLISH)

    @control.get("/v1/trust/permits", summary="Every downgrade permit")
    def permits(grant: Annotated[Grant, askers]) -> list[PermitEntry]:
        return [entry for entry in trust.permits() if grant.sees(entry.name)]

    @control.post("/v1/trust/permits", status_code=201, summary="Bring a permit", openapi_extra=_PERMIT_BODY)
    async def bring(request: Request, grant: Annotated[Grant, bringers]) -> PermitEntry:
        return await run_in_threadpool(trust.permit, await read_body(request, MAX_BYTES), grant)


def _body(model: type[BaseModel]) -> dict[str, Any]:
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def _parse(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RequestInvalid(
            f"{where or 'body'}: {first['msg']}",
            hint=f"send JSON with {', '.join(model.model_fields)}",
            where=where,
        ) from None
