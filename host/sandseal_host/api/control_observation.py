"""The control plane's logging and trace settings."""

from typing import Annotated, Any

from fastapi import FastAPI, Request

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.body import DOCUMENT_BODY, read_document
from sandseal_host.api.grant import Grant
from sandseal_host.api.observation import Observation
from sandseal_host.api.permit import permit
from sandseal_host.registry.tokens import Scope


def add_observation_routes(control: FastAPI, observation: Observation, door: Doorkeeper) -> None:
    """Add /v2/logging and /v2/trace/setting, for operators; auditors may look."""
    readers, operator = permit(door, Scope.AUDIT, Scope.OPERATE), permit(door, Scope.OPERATE)

    @control.get("/v2/logging", summary="What is logged")
    async def logging(_: Annotated[Grant, readers]) -> dict[str, Any]:
        return observation.logging()

    @control.post("/v2/logging", summary="Log more or less", openapi_extra=DOCUMENT_BODY)
    async def set_logging(request: Request, grant: Annotated[Grant, operator]) -> dict[str, Any]:
        return observation.set_logging(grant, await read_document(request))

    @control.get("/v2/trace/setting", summary="What is traced")
    async def trace(grant: Annotated[Grant, readers]) -> dict[str, Any]:
        return observation.trace(grant)

    @control.post("/v2/trace/setting", summary="Trace more or less", openapi_extra=DOCUMENT_BODY)
    async def set_trace(request: Request, grant: Annotated[Grant, operator]) -> dict[str, Any]:
        return observation.set_trace(grant, await read_document(request))

    @control.get("/v2/models/{model}/trace/setting", summary="What is traced of a model")
    async def model_trace(model: str, grant: Annotated[Grant, readers]) -> dict[str, Any]:
        return observation.trace(grant, model)

    @control.post("/v2/models/{model}/trace/setting", summary="No model has trace settings of its own")
    async def set_model_trace(model: str, grant: Annotated[Grant, operator]) -> dict[str, Any]:
        return observation.set_trace(grant, {}, model)
