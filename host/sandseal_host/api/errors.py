"""Refusals that only HTTP knows, beside the host's own tree.

ClientError (sandseal_host.errors)
├── RouteUnknown            no such path
├── MethodWrong             the path is there, the method is not; `allow` lists those that are
├── MediaTypeWrong          a body of this content type is not taken here
├── HeadersTooLarge         a request's head, in bytes or fields
├── TooSlow                 a request that trickles in
├── RequestInvalid
│   └── OptionInvalid       a member of a request for text, or of the OpenAI API
└── EncodingUnsupported     a Content-Encoding other than gzip, deflate, identity
Busy
├── ConnectionsFull         as many connections are open as may
└── RecordingsFull          as many recordings are under way as may
OperatorError
└── Unexpected              what nobody foresaw; `incident` is its line in the log
"""

from typing import Any

from sandseal_host.errors import Busy, ClientError, OperatorError, RequestInvalid, UnsupportedRequest


class RouteUnknown(ClientError):
    """No such path."""

    code = "route_unknown"
    hint = "GET /openapi.json lists the paths of this host"


class MethodWrong(ClientError):
    """The path takes other methods, those in `allow`."""

    code = "method_not_allowed"

    def __init__(self, message: str, *, allow: str, **data: Any) -> None:
        super().__init__(message, hint=f"use {allow}", **data)
        self.allow = allow


class MediaTypeWrong(ClientError):
    """The body's content type is not taken here."""

    code = "media_type_unsupported"


class HeadersTooLarge(ClientError):
    """The request's head is larger than the host reads."""

    code = "headers_too_large"
    hint = "send fewer or shorter header fields, or ask the operator to raise the limit named"


class TooSlow(ClientError):
    """The request came so slowly that the host waits no longer."""

    code = "too_slow"
    hint = "send it at once, or ask the operator to raise SANDSEAL_SLOW_S"


class RecordingsFull(Busy):
    """As many recordings are under way as may."""

    code = "recordings_full"
    hint = "come back after Retry-After seconds, when one of them is over"


class ConnectionsFull(Busy):
    """As many connections are open as may."""

    code = "connections_full"
    hint = "come back after Retry-After seconds, and keep connections open instead of opening new ones"


class EncodingUnsupported(UnsupportedRequest):
    """The body is compressed in a way that this host does not read."""

    code = "encoding_unsupported"
    hint = "compress with gzip or deflate, or not at all"


class OptionInvalid(RequestInvalid):
    """A member of a request for text, or of one to the OpenAI API, is not as it must be; `data["where"]` names it."""

    code = "option_invalid"
    hint = "correct the member named, or leave it out"


class Unexpected(OperatorError):
    """The host failed in a way that nobody foresaw; the data names the incident, under which the log has it."""

    code = "internal"
    hint = "ask the operator to look for the incident in the host's log"
