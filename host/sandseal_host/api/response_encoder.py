"""Answers of the Open Inference Protocol: JSON, binary tensors, or both in one body."""

from collections.abc import Mapping
from typing import Any

import orjson

from sandseal_host.api.answer import BINARY_TYPE, JSON_TYPE, Answer, Headers
from sandseal_host.api.json_tensor import json_from_tensor
from sandseal_host.api.request_decoder import Inference
from sandseal_host.api.settings import NonFinite
from sandseal_host.serving.request import Response
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import Manifest


class ResponseEncoder:
    """Encodes the answers of one model version; what never changes about them is rendered once.

    Args:
        manifest: whose name and outputs the answers carry.
        bundle_id: goes into the `Sandseal-Bundle` header.
        nonfinite: how JSON writes NaN and infinities.
    """

    def __init__(self, manifest: Manifest, bundle_id: str, nonfinite: NonFinite = "literal") -> None:
        self._names = f'"model_name":"{manifest.name}","model_version":"{manifest.version}"'.encode()
        self._heads = {
            spec.name: b'{"name":%b,"datatype":"%b","shape":' % (orjson.dumps(spec.name), spec.dtype.encode())
            for spec in manifest.outputs
        }
        self._batched = {spec.name for spec in manifest.outputs if spec.batched}
        self._bundle = (b"sandseal-bundle", bundle_id.encode())
        self._nonfinite = nonfinite

    def encode(self, asked: Inference, response: Response) -> Answer:
        """The protocol's answer: outputs in the model's order, each as JSON or binary as it was asked for.

        Raises:
            RequestInvalid: an output cannot be written as JSON.
        """
        entries: list[bytes] = []
        tail: list[Any] = []
        for tensor in response.outputs:
            binary = asked.binary if asked.outputs is None else asked.outputs.get(tensor.name)
            if binary is not None:
                entries.append(self._entry(tensor, binary))
                if binary and tensor.nbytes:
                    tail.append(tensor.data)
        id_member = b'"id":%b,' % orjson.dumps(asked.id) if asked.id else b""
        head = b'{%b%b,"outputs":[%b]}' % (id_member, self._names, b",".join(entries))
        if not tail:
            return Answer(200, head, (JSON_TYPE, *self._headers(response)))
        length = (b"inference-header-content-length", b"%d" % len(head))
        return Answer(200, b"".join((head, *tail)), (BINARY_TYPE, length, *self._headers(response)))

    def encode_call(self, response: Response) -> Answer:
        """The answer to a raw call: each output under its name, nested as its shape, without the axis of the one row.

        Raises:
            RequestInvalid: an output cannot be written as JSON.
        """
        members = b",".join(orjson.dumps(tensor.name) + b":" + self._plain(tensor) for tensor in response.outputs)
        body = b'{%b,"outputs":{%b}}' % (self._names, members)
        return Answer(200, body, (JSON_TYPE, *self._headers(response)))

    def _entry(self, tensor: Tensor, binary: bool) -> bytes:
        head, shape = self._heads[tensor.name], orjson.dumps(tensor.shape)
        if binary:
            return b'%b%b,"parameters":{"binary_data_size":%d}}' % (head, shape, tensor.nbytes)
        return b'%b%b,"data":%b}' % (head, shape, json_from_tensor(tensor, self._nonfinite))

    def _plain(self, tensor: Tensor) -> bytes:
        if tensor.name in self._batched and tensor.shape[0] == 1:
            tensor = Tensor(tensor.name, tensor.dtype, tensor.shape[1:], tensor.data)
        return json_from_tensor(tensor, self._nonfinite, nested=True)

    def _headers(self, response: Response) -> Headers:
        return (self._bundle, (b"server-timing", server_timing(response.timings)))


def server_timing(timings: Mapping[str, float]) -> bytes:
    """Seconds per stage as a Server-Timing header, in milliseconds (W3C Server Timing)."""
    return ", ".join([f"{stage};dur={1e3 * seconds:.3f}" for stage, seconds in timings.items()]).encode()
