"""Bodies of the control plane, which are small documents unless a route says otherwise."""

from fastapi import Request

from sandseal_host.errors import TooLarge

MAX_DOCUMENT_BYTES = 256 << 10


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
