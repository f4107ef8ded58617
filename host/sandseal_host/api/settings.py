"""What an operator may set about the edge."""

from dataclasses import dataclass, field
from typing import Literal

from sandseal_host.api.access import Access

NonFinite = Literal["literal", "null", "error"]


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """What a JSON document may have.

    Args:
        values: The most values, counted by commas.
        depth: How deep arrays and objects may nest.
    """

    values: int = 2_000_000
    depth: int = 64


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may take, and how many there may be.

    Args:
        head_bytes: The largest head of a request, its target and header fields.
        headers: The most header fields of one request.
        connections: The most connections that are open at once.
        slow_s: Seconds in which a head has to be complete, and a body or an answer has to get on.
        slow_bytes_s: What a body or an answer has to get on by, in bytes a second.
    """

    head_bytes: int = 32 << 10
    headers: int = 100
    connections: int = 4096
    slow_s: float = 60.0
    slow_bytes_s: float = 1024.0


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits and choices of the HTTP edge.

    Args:
        max_body_bytes: The largest inference body, also after decompression.
        max_json_bytes: The largest JSON part of an inference body; parsing it holds the interpreter.
        json: What that JSON may have.
        max_ratio: How many times as large as it came a body may become by decompression, beyond a mebibyte.
        max_head_bytes: The largest metadata of a gRPC call.
        max_calls: gRPC calls that may run at once; further ones are told to come back.
        slow_s: Seconds in which a gRPC call's message has to arrive, and a stream's answer to be taken.
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
    json: JsonLimits = JsonLimits()
    max_ratio: float = 200.0
    max_head_bytes: int = 32 << 10
    max_calls: int = 4096
    slow_s: float = 60.0
    max_bundle_bytes: int = 16 << 30
    max_uploads: int = 4
    max_transfers: int = 16
    upload_idle_s: float = 60.0
    anonymous_inference: bool = False
    default_class: str = "standard"
    nonfinite: NonFinite = "literal"
    token_cache_s: float = 1.0
    auth_failures: int = 20
    access: Access = field(default_factory=Access)
