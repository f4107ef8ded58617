"""The control plane's way to the doorkeeper: a FastAPI dependency that yields the caller's grant."""

from typing import Any

from fastapi import Depends, Request

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.grant import Grant
from sandseal_host.registry.tokens import Scope


def permit(door: Doorkeeper, *scopes: Scope) -> Any:
    """A dependency that admits tokens with one of these scopes, or any token when there are none.

    It leaves the grant in the request's state, for the audit log.
    """

    async def admit(request: Request) -> Grant:
        header = request.headers.get("authorization")
        address = request.client.host if request.client else "unknown"
        token, certificate = header.encode("latin-1") if header else None, getattr(request.state, "certificate", ())
        grant = request.state.grant = await door.admit(token, address, certificate)
        if scopes:
            grant.need(*scopes)
        return grant

    return Depends(admit)
