"""The one OpenAPI document: FastAPI's own, with the data plane's routes and the token scheme added."""

from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sandseal_host.api.metadata import host_version
from sandseal_host.api.openapi_inference import ANSWERS, BODIES, JSON_BYTES, LEAD_BYTES, SCHEMAS

_VERSION = ("version", {"type": "integer", "minimum": 1})
_MODEL = ("model", {"type": "string"})
_OPEN = ("/v2/health/live", "/v2/health/ready")
_STREAMING = ("/generate_stream", "/chat/completions", "/v1/completions")
_OPENAI = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/models/{model}")

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
    ("/v2/models/{model}/generate", "post", "Infer: members by the names of inputs", "application/json"),
    ("/v2/models/{model}/versions/{version}/generate", "post", "The same with a version", "application/json"),
    ("/v2/models/{model}/generate_stream", "post", "The same, answered in events", "application/json"),
    ("/v2/models/{model}/versions/{version}/generate_stream", "post", "The same with a version", "application/json"),
    ("/v1/models/{model}/call", "post", "Infer with a plain body: a file as it is", "application/octet-stream"),
    ("/v1/chat/completions", "post", "OpenAI's API: the next message, whole or in events", "application/json"),
    ("/v1/completions", "post", "OpenAI's API: what follows a text, whole or in events", "application/json"),
    ("/v1/embeddings", "post", "OpenAI's API: vectors of texts", "application/json"),
    ("/v1/models", "get", "OpenAI's API: the models that generate or embed text", ""),
    ("/v1/models/{model}", "get", "OpenAI's API: one of them", ""),
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
    members = ("error", "code", "hint", "type")
    schemas = document["components"].setdefault("schemas", {}) | SCHEMAS
    document["components"]["schemas"] = schemas
    schemas["Problem"] = {
        "type": "object", "properties": {name: {"type": "string"} for name in members}, "required": [*members],
    }  # fmt: skip
    schemas["OpenAIProblem"] = {"type": "object", "properties": {"error": {"type": "object"}}, "required": ["error"]}
    _say_problems(document)
    return _with_definitions_in_one_place(document)


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
    if path.endswith("/infer"):
        operation["parameters"].append(JSON_BYTES)
        operation["requestBody"]["content"] = BODIES
        operation["responses"]["200"]["content"] = ANSWERS
    elif path.endswith("/call"):
        operation["parameters"].append(LEAD_BYTES)
    elif path.endswith(_STREAMING):
        operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    if path in _OPEN:
        operation["security"] = []
    return operation


def _with_definitions_in_one_place(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what pydantic defines inside of single bodies among all schemas."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                document["components"]["schemas"] |= content["schema"].pop("$defs", {})
    found: dict[str, Any] = orjson.loads(orjson.dumps(document).replace(b"#/$defs/", b"#/components/schemas/"))
    return found


def _say_problems(document: dict[str, Any]) -> None:
    """Every operation fails in the one shape, or in that of the API that it stands for; never as FastAPI's 422."""
    for path, operations in document["paths"].items():
        name = "OpenAIProblem" if path in _OPENAI else "Problem"
        shape = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {"description": "A problem", "content": shape}
