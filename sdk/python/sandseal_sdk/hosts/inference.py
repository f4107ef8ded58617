"""Requests for answers of models, and what is read out of these: what both clients say and hear."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sandseal_sdk.errors import AnswerInvalid
from sandseal_sdk.hosts.answer import Answer
from sandseal_sdk.hosts.call import Call, model_path, quoted, with_query
from sandseal_sdk.hosts.tensors import decode_tensors, encode_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER_LENGTH = "Inference-Header-Content-Length"
_RECEIPT = "Sandseal-Receipt"


class TensorRequest:
    """An inference on arrays; encoded once, sent as often as need be.

    Args:
        inputs: arrays by input name.
        parameters: the request's; `timeout` among them stands in for what is left of the call's time.
        outputs: the names that are wanted; all when None.
    """

    def __init__(
        self,
        model: str,
        inputs: Mapping[str, "NDArray[Any]"],
        version: int | None,
        parameters: Mapping[str, Any] | None,
        outputs: Sequence[str] | None,
    ) -> None:
        self._path = model_path(model, version) + "/infer"
        encoded = [encode_tensor(name, array) for name, array in inputs.items()]
        self._pieces = [data for _, data in encoded]
        self._parameters = {"binary_data_output": True, **(parameters or {})}
        self._document: dict[str, Any] = {"inputs": [described for described, _ in encoded]}
        if outputs is not None:
            self._document["outputs"] = [{"name": name} for name in outputs]

    def call(self, left_s: float | None) -> Call:
        """The request, with the seconds after which nobody waits for its answer."""
        text = json.dumps({**self._document, "parameters": with_deadline(self._parameters, left_s)}).encode()
        return Call("POST", self._path, [text, *self._pieces], {_HEADER_LENGTH: str(len(text))})


def with_deadline(parameters: Mapping[str, Any], left_s: float | None) -> Mapping[str, Any]:
    """Parameters that say how long the caller waits, in the protocol's microseconds."""
    return parameters if left_s is None else {"timeout": max(1, int(left_s * 1e6)), **parameters}


def read_tensors(answer: Answer) -> dict[str, "NDArray[Any]"]:
    """The outputs of an inference by name.

    Raises:
        AnswerInvalid: the answer is not of the protocol.
    """
    content = memoryview(answer.content)
    try:
        length = int(answer.headers.get(_HEADER_LENGTH.lower(), len(content)))
        document = json.loads(bytes(content[:length]))
    except ValueError:
        raise AnswerInvalid("the answer to an inference is no JSON document") from None
    return decode_tensors(document, content[length:])


def plain_call(
    model: str,
    body: bytes,
    content_type: str,
    version: int | None,
    parameters: Mapping[str, Any] | None = None,
    nonce: str | None = None,
) -> Call:
    """A request with a plain body."""
    path = with_query(f"/v1/models/{quoted(model)}/call", {"version": version} if version else {})
    headers = {"Content-Type": content_type}
    if lead := lead_of(parameters):
        headers[_HEADER_LENGTH] = str(len(lead))
    if nonce is not None:
        headers[_RECEIPT] = nonce
    return Call("POST", path, lead + body, headers)


def lead_of(parameters: Mapping[str, Any] | None) -> bytes:
    """What is sent in front of a plain body: the request's parameters, or nothing."""
    return json.dumps({"parameters": dict(parameters)}).encode() if parameters else b""


def read_plain(answer: Answer) -> dict[str, Any]:
    """The answer to a plain body, with its times in milliseconds by stage."""
    stages = (entry.strip().partition(";dur=") for entry in answer.headers.get("server-timing", "").split(","))
    return {**answer.json(), "timings": {name: float(value) for name, found, value in stages if found}}


def read_receipt(answer: Answer) -> tuple[bytes, bytes]:
    """An answer as it came, and the receipt for it."""
    receipt = answer.headers.get(_RECEIPT.lower())
    if receipt is None:
        raise AnswerInvalid("the answer has no receipt")
    return answer.content, receipt.encode()


def text_call(path: str, text: str, parameters: Mapping[str, Any] | None, left_s: float | None) -> Call:
    """A request for generated text."""
    document = {"text_input": text, "parameters": dict(with_deadline(parameters or {}, left_s))}
    return Call.document("POST", path, document)
