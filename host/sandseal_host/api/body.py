"""Bodies of the control plane, which are small documents unless a route says otherwise."""

from typing import Any

from fastapi import Request

from sandseal_host.api.json_document import JsonObject, load_object
from sandseal_host.errors import TooLarge

MAX_DOCUMENT_BYTES = 256 << 10
DOCUMENT_BODY: dict[str, Any] = {
    "requestBody": {"required": False, "content": {"application/json": {"schema": {"type": "object"}}}}
}
"""What `read_document` reads, in the OpenAPI document."""


async def read_body(request: Request, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """A request's body, which is never buffered beyond `limit` bytes.

    Raises:
        TooLarge: it has more.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the body has over {limit} bytes", limit=limit)
    return bytes(body)


async def read_document(request: Request) -> JsonObject:
    """A request's JSON object; an empty body says nothing, as Triton's clients send it.

    Raises:
        RequestInvalid, TooLarge: see `load_object` and `read_body`.
    """
    text = await read_body(request)
    return load_object(text) if text.strip() else {}
