"""The protocol's inference in the OpenAPI document; a model's own names, types and shapes are in its metadata."""

from typing import Any

from sandseal_signing.tensor import DataType

_PARAMETERS = {"type": ["object", "null"], "additionalProperties": {"type": ["boolean", "number", "string"]}}
_SHAPE = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_TENSOR = {
    "name": {"type": "string"},
    "datatype": {"type": "string", "enum": [str(dtype) for dtype in DataType]},
    "shape": _SHAPE,
    "data": {"type": "array", "description": "Row-major, flat or nested; absent where the tensor is binary."},
    "parameters": _PARAMETERS,
}
_WANTED = {"name": {"type": "string"}, "parameters": _PARAMETERS}
_NAMES = {"model_name": {"type": "string"}, "model_version": {"type": "string"}}
_BINARY = {"schema": {"type": "string", "format": "binary"}}


def _entries(members: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": ["array", "null"], "items": {"type": "object", "properties": members, "required": [*required]}}


SCHEMAS: dict[str, Any] = {
    "InferenceRequest": {
        "type": "object",
        "properties": {
            "id": {"type": ["string", "null"]},
            "inputs": _entries(_TENSOR, "name", "datatype", "shape") | {"type": "array"},
            "outputs": _entries(_WANTED, "name"),
            "parameters": _PARAMETERS,
        },
        "required": ["inputs"],
    },
    "InferenceResponse": {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            **_NAMES,
            "outputs": _entries(_TENSOR, "name", "datatype", "shape") | {"type": "array"},
        },
        "required": [*_NAMES, "outputs"],
    },
}
BODIES: dict[str, Any] = {
    "application/json": {"schema": {"$ref": "#/components/schemas/InferenceRequest"}},
    "application/octet-stream": _BINARY,
}
ANSWERS: dict[str, Any] = {
    "application/json": {"schema": {"$ref": "#/components/schemas/InferenceResponse"}},
    "application/octet-stream": _BINARY,
}
JSON_BYTES: dict[str, Any] = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "required": False,
    "description": "How many bytes of the body are JSON; binary tensors follow. 0: the body is the only input.",
    "schema": {"type": "integer", "minimum": 0},
}
LEAD_BYTES: dict[str, Any] = JSON_BYTES | {
    "description": "How many bytes in front of the file are JSON: an object with the request's `parameters`."
}
