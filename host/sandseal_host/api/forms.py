"""The forms of an inference over HTTP: the Open Inference Protocol, its generate extension, and the plain call."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from sandseal_host.api.answer import Answer
from sandseal_host.api.call import check_callable, check_content_type
from sandseal_host.api.inference import Inference, Plan
from sandseal_host.api.prepared import Prepared
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.streamed import EVENT_TYPE, event
from sandseal_host.errors import RequestInvalid, TooLarge
from sandseal_host.serving.request import Response

Headers = Mapping[bytes, bytes]


class Layout(NamedTuple):
    """What the headers say of a body that has not been read yet.

    Args:
        limit: the most bytes that it may have.
        json_bytes: how many of them are JSON; None for all, whatever their number.
        json_answer: whether a body without JSON wants JSON back.
    """

    limit: int
    json_bytes: int | None = None
    json_answer: bool = False


class Form(Protocol):
    """How requests of one form are read and answered."""

    def expect(self, headers: Headers, prepared: Prepared) -> Layout:
        """What the body will be, checked before the first byte of it.

        Raises:
            ClientError: it will be refused.
        """
        ...

    def decode(self, prepared: Prepared, body: memoryview, layout: Layout) -> Inference:
        """What is asked of the model; raises as `RequestDecoder` does."""
        ...

    def encode(self, prepared: Prepared, plan: Plan, response: Response) -> Answer:
        """The answer; raises as `ResponseEncoder` does."""
        ...


class ProtocolForm:
    """The Open Inference Protocol's: JSON, JSON and binary tensors, or one bare tensor.

    Args:
        settings: its limits.
    """

    def __init__(self, settings: ApiSettings) -> None:
        self._all_json = Layout(settings.max_json_bytes)
        self._max_body, self._max_json = settings.max_body_bytes, settings.max_json_bytes

    def expect(self, headers: Headers, prepared: Prepared) -> Layout:
        """What every model's bodies will be; raises as `layout` does."""
        return self.layout(headers)

    def layout(self, headers: Headers) -> Layout:
        """As Inference-Header-Content-Length says; without it the body is all JSON.

        Raises:
            RequestInvalid: the header is no number.
            TooLarge: that is more JSON than the host parses.
            MediaTypeWrong: multipart.
        """
        if (kind := headers.get(b"content-type")) is not None:
            check_content_type(kind)
        declared = headers.get(b"inference-header-content-length")
        if declared is None:
            return self._all_json
        length = _header_length(declared, self._max_json)
        return Layout(self._max_body, length, length == 0 and b"json" in headers.get(b"accept", b""))

    def decode(self, prepared: Prepared, body: memoryview, layout: Layout) -> Inference:
        """The inference; a header of 0 says that the body is the tensor."""
        length = _json_length(body, layout)
        if layout.json_bytes == 0:
            return prepared.decoder.decode_raw(body, binary=not layout.json_answer)
        return prepared.decoder.decode(body, length)

    def encode(self, prepared: Prepared, plan: Plan, response: Response) -> Answer:
        """The protocol's answer."""
        return prepared.encoder.encode(plan, response)


class CallForm:
    """The plain call's: a file as it is, answered in JSON.

    Inference-Header-Content-Length, where there is one, says how many bytes in front of the file are JSON: an object
    with the request's `parameters`. So they are part of the body, which receipts are about.

    Args:
        settings: its limits.
    """

    def __init__(self, settings: ApiSettings) -> None:
        self._layout = Layout(settings.max_body_bytes, 0)
        self._max_json = settings.max_json_bytes

    def expect(self, headers: Headers, prepared: Prepared) -> Layout:
        """A body of a content type that the manifest lists.

        Raises:
            UnsupportedRequest: the model does not take a plain body.
            MediaTypeWrong: multipart, or not one of the manifest's.
            RequestInvalid, TooLarge: as `ProtocolForm.expect`.
        """
        check_callable(prepared.manifest)
        check_content_type(headers.get(b"content-type", b""), prepared.manifest.model.raw)
        declared = headers.get(b"inference-header-content-length")
        if declared is None:
            return self._layout
        return self._layout._replace(json_bytes=_header_length(declared, self._max_json))

    def decode(self, prepared: Prepared, body: memoryview, layout: Layout) -> Inference:
        """The inference on the file as the model's only input."""
        length = _json_length(body, layout)
        return prepared.decoder.decode_raw(body[length:], bytes(body[:length]))

    def encode(self, prepared: Prepared, plan: Plan, response: Response) -> Answer:
        """The outputs by name."""
        return prepared.encoder.encode_call(response)


class GenerateForm:
    """The generate extension's: JSON members by the names of inputs and outputs.

    Args:
        settings: its limits.
        streaming: whether the answer is a stream of events, of which a model that answers once has one.
    """

    def __init__(self, settings: ApiSettings, *, streaming: bool) -> None:
        self._layout, self._streaming = Layout(settings.max_json_bytes), streaming

    def expect(self, headers: Headers, prepared: Prepared) -> Layout:
        """A body that is all JSON.

        Raises:
            MediaTypeWrong: multipart.
        """
        check_content_type(headers.get(b"content-type", b""))
        return self._layout

    def decode(self, prepared: Prepared, body: memoryview, layout: Layout) -> Inference:
        """The inference on the inputs that the members name."""
        return prepared.decoder.decode_generate(body)

    def encode(self, prepared: Prepared, plan: Plan, response: Response) -> Answer:
        """The outputs by name."""
        answer = prepared.encoder.encode_generate(plan, response)
        if not self._streaming:
            return answer
        return replace(answer, body=event(answer.body), headers=(EVENT_TYPE, *answer.headers[1:]))


def _header_length(declared: bytes, limit: int) -> int:
    if not declared.isdigit() or len(declared) > 18:
        shown = declared[:40].decode("latin-1")
        raise RequestInvalid(f"Inference-Header-Content-Length {shown!r} is not a number of bytes")
    if (length := int(declared)) > limit:
        raise TooLarge(f"{length} bytes of JSON, over {limit}", got=length, limit=limit)
    return length


def _json_length(body: memoryview, layout: Layout) -> int:
    length = len(body) if layout.json_bytes is None else layout.json_bytes
    if length > len(body):
        raise RequestInvalid(
            f"Inference-Header-Content-Length is {length}, but the body has {len(body)} bytes",
            got=length, limit=len(body),
        )  # fmt: skip
    return length
