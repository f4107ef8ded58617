"""The control plane's model repository: KServe's list, Triton's index, load and unload."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Request

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.body import DOCUMENT_BODY, read_document
from sandseal_host.api.grant import Grant
from sandseal_host.api.metadata import index_entry
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import Lifecycle, Models
from sandseal_host.errors import RequestInvalid, UnsupportedRequest
from sandseal_host.registry.tokens import Scope


def add_repository_routes(control: FastAPI, models: Models, lifecycle: Lifecycle, door: Doorkeeper) -> None:
    """Add the routes that list, load and unload models; bodies may be empty and need no content type."""
    reader, operator = permit(door), permit(door, Scope.OPERATE)

    @control.get("/v2/models", summary="The models that are ready")
    async def ready(grant: Annotated[Grant, reader]) -> dict[str, list[str]]:
        names = {entry.name for entry in models.index() if entry.state == "ready" and grant.sees(entry.name)}
        return {"models": sorted(names)}

    @control.post("/v2/repository/index", summary="Every known version and its state", openapi_extra=DOCUMENT_BODY)
    async def index(request: Request, grant: Annotated[Grant, reader]) -> list[dict[str, str]]:
        only_ready = (await read_document(request)).get("ready") is True
        lines = [index_entry(entry) for entry in models.index() if grant.sees(entry.name)]
        return [line for line in lines if not only_ready or line["state"] == "READY"]

    @control.post("/v2/repository/models/{model}/load", summary="Load a version", openapi_extra=DOCUMENT_BODY)
    async def load(model: str, request: Request, grant: Annotated[Grant, operator]) -> dict[str, str]:
        parameters = _parameters(await read_document(request), {"wait", "version"})
        grant.need_model(model)
        await lifecycle.load(model, _version(parameters), wait=_wait(parameters))
        return {"name": model}

    @control.post(
        "/v2/repository/models/{model}/unload", summary="Unload a version, or all of them", openapi_extra=DOCUMENT_BODY
    )
    async def unload(model: str, request: Request, grant: Annotated[Grant, operator]) -> dict[str, str]:
        # Bundles have no dependents, so Triton's unload_dependents is always fulfilled.
        parameters = _parameters(await read_document(request), {"wait", "version", "unload_dependents"})
        grant.need_model(model)
        await lifecycle.unload(model, _version(parameters), wait=_wait(parameters))
        return {"name": model}


def _parameters(body: Mapping[str, Any], known: set[str]) -> Mapping[str, Any]:
    parameters = body.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise RequestInvalid("member 'parameters' must be an object")
    if unknown := sorted(parameters.keys() - known):
        raise UnsupportedRequest(
            f"parameters {unknown} are not for this host: what runs is what was signed",
            hint=f"use {sorted(known)}; to change a model, push a new bundle",
            unknown=unknown,
        )
    return parameters


def _version(parameters: Mapping[str, Any]) -> int | None:
    """The version asked for; Triton's clients write versions as strings."""
    version = parameters.get("version")
    if version is None:
        return None
    if type(version) not in (int, str) or not str(version).isdecimal() or len(str(version)) > 16:
        raise RequestInvalid("parameter 'version' must be a version number")
    return int(version)


def _wait(parameters: Mapping[str, Any]) -> bool:
    wait = parameters.get("wait", True)
    if type(wait) is not bool:
        raise RequestInvalid("parameter 'wait' must be true or false")
    return wait
