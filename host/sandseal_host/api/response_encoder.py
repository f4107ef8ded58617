"""Answers of the Open Inference Protocol: JSON, binary tensors, or both in one body."""

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sandseal_host.api.answer import BINARY_TYPE, JSON_TYPE, Answer
from sandseal_host.api.classification import chosen
from sandseal_host.api.inference import Plan
from sandseal_host.api.json_tensor import json_from_tensor
from sandseal_host.api.settings import NonFinite
from sandseal_host.serving.request import Response
from sandseal_host.tensors import Tensor
from sandseal_signing.manifest import Manifest
from sandseal_signing.tensor import DataType
from sandseal_signing.variants import Precision

_MAX_ENTRIES = 1024
_JOINED_BYTES = 64 * 1024  # up to here copying outputs behind the head costs less than writing them by themselves


class ResponseEncoder:
    """Encodes the answers of one model version; what never changes about them is rendered once.

    Args:
        manifest: whose name and outputs the answers carry.
        bundle_id: goes into the `Sandseal-Bundle` header.
        precision: of the variant that serves, which the answers say; None for a model that has but one graph.
        nonfinite: how JSON writes NaN and infinities.
    """

    def __init__(
        self,
        manifest: Manifest,
        bundle_id: str,
        precision: Precision | None = None,
        nonfinite: NonFinite = "literal",
    ) -> None:
        self._names = f'"model_name":"{manifest.name}","model_version":"{manifest.version}"'.encode()
        self._told = b"" if precision is None else f'"parameters":{{"sandseal.precision":"{precision}"}},'.encode()
        self._heads = {
            (spec.name, dtype): b'{"name":%b,"datatype":"%b","shape":' % (orjson.dumps(spec.name), dtype.encode())
            for spec in manifest.outputs
            for dtype in {spec.dtype, DataType.BYTES}  # its own, and that of its classes
        }
        self._batched = {spec.name for spec in manifest.outputs if spec.batched}
        self._entries: dict[tuple[str, DataType, tuple[int, ...], int], bytes] = {}
        self._bundle = (b"sandseal-bundle", bundle_id.encode())
        self._nonfinite = nonfinite

    def encode(self, plan: Plan, response: Response) -> Answer:
        """The protocol's answer: outputs in the model's order, each as JSON or binary as it was asked for.

        Raises:
            RequestInvalid: an output cannot be written as JSON.
        """
        entries: list[bytes] = []
        tail: list[Any] = []
        size = 0
        for tensor, binary in chosen(plan, response.outputs, self._batched):
            if binary:
                entries.append(self._binary_entry(tensor))
                tail.append(tensor.data)
                size += tensor.data.nbytes
            else:
                entries.append(self._json_entry(tensor))
        start = b'{"id":%b,' % orjson.dumps(plan.id) if plan.id else b"{"
        head = b'%b%b,%b"outputs":[%b]}' % (start, self._names, self._told, b",".join(entries))
        timing = (b"server-timing", server_timing(response.timings))
        if not size:
            return Answer(200, head, (JSON_TYPE, self._bundle, timing))
        length = (b"inference-header-content-length", b"%d" % len(head))
        headers = (BINARY_TYPE, length, self._bundle, timing)
        if size > _JOINED_BYTES and all(map(_alone, tail)):
            return Answer(200, head, headers, tuple(data.reshape(-1).view(np.uint8).data for data in tail))
        return Answer(200, b"".join((head, *tail)), headers)

    def encode_call(self, response: Response) -> Answer:
        """The answer to a plain call: each output under its name, nested as its shape, without the axis of the one row.

        Raises:
            RequestInvalid: an output cannot be written as JSON.
        """
        members = [orjson.dumps(tensor.name) + b":" + self._plain(tensor) for tensor in response.outputs]
        body = b'{%b,"outputs":{%b}}' % (self._names, b",".join(members))
        timing = (b"server-timing", server_timing(response.timings))
        return Answer(200, body, (JSON_TYPE, self._bundle, timing))

    def encode_generate(self, plan: Plan, response: Response) -> Answer:
        """The answer of the generate extension: each output under its name, as one value where it has just one.

        Raises:
            RequestInvalid: an output cannot be written as JSON.
        """
        start = [b'"id":%b' % orjson.dumps(plan.id)] if plan.id else []
        outputs = [orjson.dumps(tensor.name) + b":" + self._value(tensor) for tensor in response.outputs]
        body = b"{%b}" % b",".join((*start, self._names, *outputs))
        return Answer(200, body, (JSON_TYPE, self._bundle, (b"server-timing", server_timing(response.timings))))

    def _json_entry(self, tensor: Tensor) -> bytes:
        data = json_from_tensor(tensor, self._nonfinite)
        return b'%b%b,"data":%b}' % (self._heads[tensor.name, tensor.dtype], orjson.dumps(tensor.shape), data)

    def _binary_entry(self, tensor: Tensor) -> bytes:
        key = (tensor.name, tensor.dtype, tensor.shape, tensor.data.nbytes)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries.clear()
            head, shape = self._heads[tensor.name, tensor.dtype], orjson.dumps(tensor.shape)
            entry = self._entries[key] = b'%b%b,"parameters":{"binary_data_size":%d}}' % (
                head,
                shape,
                tensor.data.nbytes,
            )
        return entry

    def _value(self, tensor: Tensor) -> bytes:
        data = json_from_tensor(tensor, self._nonfinite)
        return data[1:-1] if prod(tensor.shape) == 1 else data

    def _plain(self, tensor: Tensor) -> bytes:
        if tensor.name in self._batched and tensor.shape[0] == 1:
            tensor = Tensor(tensor.name, tensor.dtype, tensor.shape[1:], tensor.data)
        return json_from_tensor(tensor, self._nonfinite, nested=True)


def _alone(data: NDArray[Any]) -> bool:
    """Whether an output shares its memory with no neighbour's: else a slow client would keep the batch's from going."""
    return not isinstance(data.base, np.ndarray) or data.base.nbytes == data.nbytes


def server_timing(timings: Mapping[str, float]) -> bytes:
    """Seconds per stage as a Server-Timing header, in milliseconds (W3C Server Timing)."""
    return _timing_form(tuple(timings)) % tuple([1e3 * seconds for seconds in timings.values()])


@lru_cache(maxsize=64)
def _timing_form(stages: tuple[str, ...]) -> bytes:
    return ", ".join([f"{stage};dur=%.3f" for stage in stages]).encode()
