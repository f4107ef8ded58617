"""What an operator may set about the edge."""

from dataclasses import dataclass
from typing import Literal

from sandseal_host.api.access import Access

NonFinite = Literal["literal", "null", "error"]


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits and choices of the HTTP edge.

    Args:
        max_body_bytes: The largest inference body, also after decompression.
        max_json_bytes: The largest JSON part of an inference body; parsing it holds the interpreter.
        max_bundle_bytes: The largest upload of a sealed bundle.
        max_uploads: Uploads that may run at once, three quarters of them by one token; further ones are told to wait.
        max_transfers: Blobs of offers that may arrive at once; further ones are told to come back.
        upload_idle_s: Seconds that an upload may stand still before it counts as broken off.
        anonymous_inference: Whether requests without a token may infer, as tenant `anonymous`.
        default_class: The service class of requests that name none.
        nonfinite: How JSON answers write NaN and infinities: as bare literals like Triton, as null, or not at all.
        token_cache_s: Seconds that a checked token is believed without asking again; bounds a revocation's delay.
        auth_failures: Wrong tokens that one address may send a minute before it is answered 429.
        access: What the access file says.
    """

    max_body_bytes: int = 64 << 20
    max_json_bytes: int = 16 << 20
    max_bundle_bytes: int = 16 << 30
    max_uploads: int = 4
    max_transfers: int = 16
    upload_idle_s: float = 60.0
    anonymous_inference: bool = False
    default_class: str = "standard"
    nonfinite: NonFinite = "literal"
    token_cache_s: float = 1.0
    auth_failures: int = 20
    access: Access = Access()
