"""The control plane's offers: large bundles that come blob by blob, in pieces, and go on after a broken connection."""

import re
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.body import read_body
from sandseal_host.api.control_bundles import told, visible_bundle
from sandseal_host.api.grant import Grant
from sandseal_host.api.offer_port import BlobEntry, OfferEntry, Offers
from sandseal_host.api.permit import permit
from sandseal_host.api.ports import BundleEntry, Bundles
from sandseal_host.api.uploads import Transfers
from sandseal_host.errors import BundleUnknown, RequestInvalid
from sandseal_host.registry.tokens import Scope

_MAX_HEAD_BYTES = 33 << 20  # signature files have 32 MiB at most, bundle.json 256 KiB
_RANGE = re.compile(r"bytes (\d{1,16})-(\d{1,16})/(\d{1,16})\Z")
_BLOB = "/v1/blobs/sha256/{digest}"

_HEAD_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A .seal file from its first byte to the end of bundle.json.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_BLOB_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The blob, or with Content-Range the piece of it that the host lacks.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}

OfferId = Annotated[str, Query(description="The offer's id.")]


def add_offer_routes(
    control: FastAPI, offers: Offers, bundles: Bundles, uploads: Transfers, transfers: Transfers, door: Doorkeeper
) -> None:
    """Add the routes for offers and blobs.

    Args:
        uploads: runs what takes a whole bundle in.
        transfers: runs what takes a blob.
    """
    publishers = permit(door, Scope.PUBLISH)

    @control.post("/v1/bundles/offers", summary="Offer a bundle", openapi_extra=_HEAD_BODY)
    async def offer(request: Request, grant: Annotated[Grant, publishers]) -> OfferEntry:
        return await run_in_threadpool(offers.offer, await read_body(request, _MAX_HEAD_BYTES), grant)

    @control.delete("/v1/bundles/offers/{bundle_id}", status_code=204, summary="Withdraw an offer")
    def withdraw(bundle_id: str, grant: Annotated[Grant, publishers]) -> None:
        offers.withdraw(bundle_id, grant)

    @control.head(_BLOB, summary="How much of a blob is there", response_class=Response)
    def look(digest: str, offer: OfferId, grant: Annotated[Grant, publishers]) -> Response:
        return Response(headers=_progress(offers.blob(offer, digest, grant)))

    @control.put(_BLOB, summary="Send a blob, or a piece of it", openapi_extra=_BLOB_BODY)
    async def send(
        digest: str, offer: OfferId, request: Request, response: Response, grant: Annotated[Grant, publishers]
    ) -> BlobEntry:
        known = await run_in_threadpool(offers.blob, offer, digest, grant)
        at = _begin(request.headers.get("content-range"), known)
        entry = await transfers.run(
            request.stream(), known.size - at, grant, lambda stream: offers.write(offer, digest, at, stream, grant)
        )
        response.headers.update(_progress(entry))
        return entry

    @control.post("/v1/bundles/{bundle_id}/finish", status_code=201, summary="Take an offered bundle in")
    async def finish(
        bundle_id: str, request: Request, response: Response, grant: Annotated[Grant, publishers]
    ) -> BundleEntry:
        try:
            entry = await uploads.run(request.stream(), 0, grant, lambda _: offers.finish(bundle_id, grant))
        except BundleUnknown:
            # Finished before: a client that did not get the answer asks again.
            entry = await run_in_threadpool(visible_bundle, bundles, bundle_id, grant)
        response.status_code = 202 if entry.state == "pending" else 201
        return told(request, entry)


def _progress(entry: BlobEntry) -> dict[str, str]:
    """The header fields of draft-ietf-httpbis-resumable-upload."""
    complete = "?1" if entry.offset == entry.size else "?0"
    return {
        "Upload-Offset": str(entry.offset),
        "Upload-Length": str(entry.size),
        "Upload-Complete": complete,
        "Cache-Control": "no-store",
    }


def _begin(header: str | None, known: BlobEntry) -> int:
    """The byte that a piece begins at (RFC 9110, 14.4 and 14.5); 0 without a range.

    Raises:
        RequestInvalid: not one range of a blob of this size.
    """
    if header is None:
        return 0
    found = _RANGE.match(header)
    if not found:
        raise RequestInvalid(
            f"Content-Range {header[:80]!r} is not one range of bytes", hint="send 'bytes first-last/size'"
        )
    first, last, size = map(int, found.groups())
    if size != known.size or not first <= last < size:
        raise RequestInvalid(f"Content-Range {header!r} is not within the {known.size} bytes that were signed")
    return first
