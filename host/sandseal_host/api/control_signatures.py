"""The control plane's late signatures: what completes a pending bundle, or stands by an accepted one."""

from typing import Annotated, Any

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.control_bundles import told, visible_bundle
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import BundleEntry, Bundles
from sandseal_host.api.uploads import Transfers
from sandseal_host.registry.tokens import Scope
from sandseal_signing.digest import Readable, read_chunks
from sandseal_signing.envelope import MAX_FILE_BYTES, MEDIA_TYPE

_SIGNATURE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A signature file, as `sandseal sign --detached` writes it.",
        "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
    }
}


def add_signature_routes(control: FastAPI, bundles: Bundles, uploads: Transfers, door: Doorkeeper) -> None:
    """Add the route under /v1/bundles that takes signatures.

    Args:
        uploads: runs what takes a bundle in, as the last signature does.
    """

    @control.post(
        "/v1/bundles/{bundle_id}/signatures", summary="Add a signature to a bundle", openapi_extra=_SIGNATURE_BODY
    )
    async def sign(
        bundle_id: str, request: Request, grant: Annotated[Grant, permit(door, Scope.PUBLISH)]
    ) -> BundleEntry:
        bundle = await run_in_threadpool(visible_bundle, bundles, bundle_id, grant)
        entry = await uploads.run(
            request.stream(), MAX_FILE_BYTES, grant, lambda stream: bundles.sign(bundle.id, _read(stream), grant)
        )
        return told(request, entry)


def _read(stream: Readable) -> bytes:
    return b"".join(map(bytes, read_chunks(stream)))
