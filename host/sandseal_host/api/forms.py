"""The two forms of an inference over HTTP: the Open Inference Protocol, and the plain call."""

from collections.abc import Mapping
from typing import Protocol

from sandseal_host.api.answer import Answer
from sandseal_host.api.call import check_callable, check_content_type
from sandseal_host.api.prepared import Prepared
from sandseal_host.api.request_decoder import Inference
from sandseal_host.api.settings import ApiSettings
from sandseal_host.errors import RequestInvalid, TooLarge
from sandseal_host.serving.request import Response

Headers = Mapping[bytes, bytes]


class Form(Protocol):
    """How a request's body is read and its answer written; made from the headers, before the body is there."""

    @property
    def limit(self) -> int:
        """The most bytes that the body may have."""
        ...

    @property
    def lead(self) -> int:
        """How many of its bytes stand before the first tensor."""
        ...

    def json_bytes(self, body: memoryview) -> int:
        """How many of its bytes are JSON.

        Raises:
            RequestInvalid: more than the body has.
            TooLarge: more than the host parses.
        """
        ...

    def decode(self, prepared: Prepared, body: memoryview) -> Inference:
        """What is asked of the model; raises as `RequestDecoder` does."""
        ...

    def encode(self, prepared: Prepared, asked: Inference, response: Response) -> Answer:
        """The answer; raises as `ResponseEncoder` does."""
        ...


class ProtocolForm:
    """The Open Inference Protocol's: JSON, JSON and binary tensors, or one bare tensor.

    Raises:
        RequestInvalid: Inference-Header-Content-Length is no number.
        MediaTypeWrong: multipart.
    """

    __slots__ = ("_declared", "_json_answer", "_max_json", "lead", "limit")

    def __init__(self, headers: Headers, settings: ApiSettings, prepared: Prepared) -> None:
        check_content_type(headers.get(b"content-type", b""))
        declared = headers.get(b"inference-header-content-length")
        self._declared = declared is not None
        self._json_answer = declared == b"0" and b"json" in headers.get(b"accept", b"")
        self._max_json = settings.max_json_bytes
        self.lead = _header_length(declared) if declared is not None else 0
        self.limit = settings.max_body_bytes if declared is not None else settings.max_json_bytes

    def json_bytes(self, body: memoryview) -> int:
        """All of them unless the header says otherwise."""
        length = self.lead if self._declared else len(body)
        if length > len(body):
            raise RequestInvalid(
                f"Inference-Header-Content-Length is {length}, but the body has {len(body)} bytes",
                got=length, limit=len(body),
            )  # fmt: skip
        if length > self._max_json:
            raise TooLarge(f"{length} bytes of JSON, over {self._max_json}", got=length, limit=self._max_json)
        return length

    def decode(self, prepared: Prepared, body: memoryview) -> Inference:
        """The inference; a header of 0 says that the body is the tensor."""
        length = self.json_bytes(body)
        if self._declared and length == 0:
            return prepared.decoder.decode_raw(body, binary=not self._json_answer)
        return prepared.decoder.decode(body, length)

    def encode(self, prepared: Prepared, asked: Inference, response: Response) -> Answer:
        """The protocol's answer."""
        return prepared.encoder.encode(asked, response)


class CallForm:
    """The plain call's: a file as it is, answered in JSON.

    Raises:
        UnsupportedRequest: the model does not take a plain body.
        MediaTypeWrong: multipart, or a content type that the manifest does not list.
    """

    __slots__ = ("limit",)

    lead = 0

    def __init__(self, headers: Headers, settings: ApiSettings, prepared: Prepared) -> None:
        check_callable(prepared.manifest)
        check_content_type(headers.get(b"content-type", b""), prepared.manifest.model.raw)
        self.limit = settings.max_body_bytes

    def json_bytes(self, _: memoryview) -> int:
        """None of them."""
        return 0

    def decode(self, prepared: Prepared, body: memoryview) -> Inference:
        """The inference on the body as the model's only input."""
        return prepared.decoder.decode_raw(body)

    def encode(self, prepared: Prepared, asked: Inference, response: Response) -> Answer:
        """The outputs by name."""
        return prepared.encoder.encode_call(response)


def _header_length(declared: bytes) -> int:
    if not declared.isdigit() or len(declared) > 18:
        shown = declared[:40].decode("latin-1")
        raise RequestInvalid(f"Inference-Header-Content-Length {shown!r} is not a number of bytes")
    return int(declared)
