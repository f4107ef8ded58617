"""The control plane's bundles: upload, list, show, delete."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.call import check_content_type
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import BundleEntry, Bundles
from sandseal_host.api.uploads import Uploads
from sandseal_host.errors import BundleUnknown
from sandseal_host.registry.tokens import Scope

_SEAL_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A .seal file as it is.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def add_bundle_routes(control: FastAPI, bundles: Bundles, uploads: Uploads, door: Doorkeeper) -> None:
    """Add the routes under /v1/bundles."""
    readers = permit(door, Scope.PUBLISH, Scope.OPERATE, Scope.AUDIT)

    @control.post("/v1/bundles", status_code=201, summary="Upload a sealed bundle", openapi_extra=_SEAL_BODY)
    async def upload(
        request: Request, response: Response, grant: Annotated[Grant, permit(door, Scope.PUBLISH)]
    ) -> BundleEntry:
        check_content_type(request.headers.get("content-type", "").encode("latin-1"))
        entry = told(request, await uploads.accept(request.stream(), grant))
        response.status_code = 202 if entry.state == "pending" else 201
        return entry

    @control.get("/v1/bundles", summary="The accepted bundles")
    def entries(grant: Annotated[Grant, readers]) -> list[BundleEntry]:
        return [entry for entry in bundles.entries() if grant.sees(entry.name)]

    @control.get("/v1/bundles/{bundle_id}", summary="One accepted bundle")
    def entry(bundle_id: str, grant: Annotated[Grant, readers]) -> BundleEntry:
        return visible_bundle(bundles, bundle_id, grant)

    @control.delete("/v1/bundles/{bundle_id}", status_code=204, summary="Unload and forget a bundle")
    def remove(bundle_id: str, grant: Annotated[Grant, permit(door, Scope.OPERATE)]) -> None:
        bundles.remove(visible_bundle(bundles, bundle_id, grant).id)


def told(request: Request, entry: BundleEntry) -> BundleEntry:
    """The bundle that a request brought or completed, left for the audit log too."""
    request.state.about = {
        "model": entry.name,
        "version": entry.version,
        "bundle": entry.id,
        "verdict": entry.state,
    }
    return entry


def visible_bundle(bundles: Bundles, bundle_id: str, grant: Grant) -> BundleEntry:
    """The bundle of this id.

    Raises:
        BundleUnknown: there is none that the bearer may see; the answer does not tell whether there is another.
    """
    with suppress(BundleUnknown):
        entry = bundles.entry(bundle_id)
        if grant.sees(entry.name):
            return entry
    raise BundleUnknown(f"there is no bundle {bundle_id[:80]!r}", bundle=bundle_id[:80])
