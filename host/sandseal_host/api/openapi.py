"""The one OpenAPI document: FastAPI's own, with the data plane's routes and the token scheme added."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sandseal_host.api.metadata import host_version

_VERSION = ("version", {"type": "integer", "minimum": 1})
_MODEL = ("model", {"type": "string"})
_OPEN = ("/v2/health/live", "/v2/health/ready")

# path, method, summary, content type of the body
DATA_PLANE: tuple[tuple[str, str, str, str], ...] = (
    ("/v2", "get", "Name, version and extensions of this host", ""),
    ("/v2/health/live", "get", "Whether the host runs", ""),
    ("/v2/health/ready", "get", "Whether the host takes requests", ""),
    ("/v2/models/{model}", "get", "The public signature of a model", ""),
    ("/v2/models/{model}/versions/{version}", "get", "The public signature of a version", ""),
    ("/v2/models/{model}/ready", "get", "Whether a model is ready", ""),
    ("/v2/models/{model}/versions/{version}/ready", "get", "Whether a version is ready", ""),
    ("/v2/models/{model}/config", "get", "A model's configuration in Triton's form", ""),
    ("/v2/models/{model}/versions/{version}/config", "get", "A version's configuration", ""),
    ("/v2/models/{model}/stats", "get", "What a model answered, and how long it took", ""),
    ("/v2/models/{model}/versions/{version}/stats", "get", "The same of a version", ""),
    ("/v2/models/stats", "get", "The same of every model", ""),
    ("/v2/models/{model}/infer", "post", "Infer: JSON, binary tensors, or both", "application/json"),
    ("/v2/models/{model}/versions/{version}/infer", "post", "Infer with a version", "application/json"),
    ("/v1/models/{model}/call", "post", "Infer with a plain body: a file as it is", "application/octet-stream"),
)


def document_both_planes(control: FastAPI) -> None:
    """Make `control` answer /openapi.json with both planes' routes."""

    def openapi() -> dict[str, Any]:
        if not control.openapi_schema:
            control.openapi_schema = _document(control)
        return control.openapi_schema

    control.openapi = openapi  # type: ignore[method-assign]


def _document(control: FastAPI) -> dict[str, Any]:
    document = get_openapi(title="Sandseal", version=host_version(), routes=control.routes)
    for path, method, summary, body in DATA_PLANE:
        document["paths"].setdefault(path, {})[method] = _operation(path, summary, body)
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    document["security"] = [{"token": []}]
    problem = {"type": "object", "properties": {name: {"type": "string"} for name in ("error", "code", "hint")}}
    document["components"].setdefault("schemas", {})["Problem"] = problem | {"required": ["error", "code", "hint"]}
    _say_problems(document)
    return document


def _operation(path: str, summary: str, body: str) -> dict[str, Any]:
    names = [(name, schema) for name, schema in (_MODEL, _VERSION) if f"{{{name}}}" in path]
    operation: dict[str, Any] = {
        "summary": summary,
        "tags": ["inference" if body else "metadata"],
        "parameters": [{"name": n, "in": "path", "required": True, "schema": s} for n, s in names],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}},
    }
    if body:
        schema = {"type": "object"} if body == "application/json" else {"type": "string", "format": "binary"}
        operation["requestBody"] = {"required": True, "content": {body: {"schema": schema}}}
    if path in _OPEN:
        operation["security"] = []
    return operation


def _say_problems(document: dict[str, Any]) -> None:
    """Every operation fails in the one shape, never as FastAPI's 422."""
    shape = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {"description": "A problem", "content": shape}
