"""Errors as HTTP: one table from error class to status, one body shape for all.

The body is `{"error": sentence, "code": stable word, "hint": what to do, "type": its page, ...data}`; Triton's and
KServe's clients read `error`. Validation is always 400, so that no client has to know 422.
"""

import json
import math
import uuid
from typing import Any

import orjson

from sandseal_host import errors as host
from sandseal_host.api import errors as http
from sandseal_host.api.answer import JSON_TYPE, Answer, Headers
from sandseal_host.observe.logs import get_logger
from sandseal_signing import errors as signing
from sandseal_signing.errors import SandsealError

_MAX_RETRY_S = 86_400.0

STATUS: dict[type[SandsealError], int] = {
    # The caller must change the request.
    host.RequestInvalid: 400,
    host.InputRefused: 400,
    host.PrecisionUnavailable: 400,
    host.NotAuthenticated: 401,
    host.NotPermitted: 403,
    host.ModelUnknown: 404,
    host.BundleUnknown: 404,
    host.BlobUnknown: 404,
    host.OffsetWrong: 409,
    host.OfferIncomplete: 409,
    host.Revoked: 410,  # not 503: asking again is of no use
    host.SequenceLost: 410,
    http.RouteUnknown: 404,
    http.MethodWrong: 405,
    http.TooSlow: 408,
    host.TooLarge: 413,
    host.QuotaExceeded: 413,
    http.MediaTypeWrong: 415,
    http.HeadersTooLarge: 431,
    host.ClientGone: 499,
    host.UnsupportedRequest: 501,
    http.EncodingUnsupported: 501,
    host.DeadlineExpired: 504,
    host.LoadTimeout: 504,
    # The caller, later.
    host.RateLimited: 429,
    host.QueueFull: 503,
    host.DeadlineImpossible: 503,
    host.SequencesFull: 503,
    host.NotReady: 503,
    host.Evicted: 503,
    host.MemberUnavailable: 503,
    host.CircuitOpen: 503,
    http.ConnectionsFull: 503,
    http.RecordingsFull: 503,
    host.ShuttingDown: 503,
    # The publisher must change the bundle.
    signing.KeyInvalid: 400,
    signing.KeyUnsafe: 400,
    signing.JsonInvalid: 400,
    signing.EnvelopeInvalid: 400,
    signing.StatementInvalid: 400,
    signing.ManifestInvalid: 400,
    signing.NameInvalid: 400,
    signing.PermitInvalid: 400,
    signing.SealInvalid: 400,
    signing.SealTruncated: 400,
    signing.DigestMismatch: 400,
    signing.SizeMismatch: 400,
    signing.FileMissing: 400,
    signing.FileUnexpected: 400,
    signing.LimitExceeded: 413,
    host.PluginInvalid: 400,
    host.ModelInvalid: 400,
    host.VersionStale: 409,
    # Nobody trusted stands behind it.
    signing.Unsigned: 403,
    signing.SignerUnknown: 403,
    signing.SignatureInvalid: 403,
    signing.PolicyRefused: 403,
    # A good request met a bad plugin, model or host.
    host.PluginTrapped: 500,
    host.PluginTimeout: 500,
    host.PluginOutOfMemory: 500,
    host.PluginBadOutput: 500,
    host.PluginLost: 500,
    host.ModelFailed: 500,
    signing.PolicyInvalid: 500,
    signing.ProofInvalid: 400,  # of the log: no such entry, or no such size
    signing.LogIncomplete: 500,
    signing.AuditError: 500,  # what an auditor finds out about a host; a host that finds it out about itself is broken
    http.Unexpected: 500,
    host.SettingsInvalid: 500,
    host.DeviceUnavailable: 500,
    host.StoreError: 500,
    host.Damaged: 500,
    host.Tampered: 500,
    host.MemoryExhausted: 503,
}


def status_of(kind: type[SandsealError]) -> int:
    """The status of an error class; of its nearest listed ancestor when a room has made a class of its own."""
    return next((STATUS[base] for base in kind.__mro__ if base in STATUS), 500)


def problem(error: BaseException) -> Answer:
    """The answer that tells of `error`; one that nobody foresaw is logged under an id and answered as `internal`."""
    if not isinstance(error, SandsealError):
        error = _unexpected(error)
    fixed = {"error": error.message, "code": error.code, "hint": error.hint, "type": f"/problems/{error.code}"}
    return Answer(status_of(type(error)), _render({**fixed, **error.data, **fixed}), (JSON_TYPE, *_headers(error)))


def _headers(error: SandsealError) -> Headers:
    match error:
        case host.Busy():
            return ((b"retry-after", b"%d" % max(1, math.ceil(min(error.retry_after, _MAX_RETRY_S)))),)
        case host.NotAuthenticated():
            return ((b"www-authenticate", b'Bearer realm="sandseal"'),)
        case http.MethodWrong():
            return ((b"allow", error.allow.encode()),)
        case http.EncodingUnsupported():
            return ((b"accept-encoding", b"gzip, deflate"),)
    return ()


def _unexpected(error: BaseException) -> SandsealError:
    incident = uuid.uuid4().hex
    get_logger("sandseal.api").error("unexpected", incident=incident, exc_info=error)
    return http.Unexpected("the host failed unexpectedly", incident=incident)


def _render(document: dict[str, Any]) -> bytes:
    """JSON of facts that any room put into an error, whatever their types and sizes."""
    try:
        return orjson.dumps(document, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # an integer beyond 64 bits, or half of a surrogate pair
        return json.dumps(document, default=str).encode()
