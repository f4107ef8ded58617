"""Open Inference Protocol requests into tensors, everything checked once against the model's public signature.

A body is JSON, JSON followed by binary tensors (as many JSON bytes as Inference-Header-Content-Length says), or with
that header at 0 one bare tensor. The rules are those of the protocol and of Triton's binary tensor extension; what
they leave open is settled by what Triton accepts, and what is refused is always a 400.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sandseal_host.api.binary_tensor import BinarySlot, raw_input
from sandseal_host.api.classification import check_classes
from sandseal_host.api.generate_request import read_generate
from sandseal_host.api.inference import Inference, Plan, Wanted
from sandseal_host.api.json_document import JsonObject, load_object
from sandseal_host.api.json_slot import JsonSlot, is_skeleton, split_data
from sandseal_host.api.json_tensor import tensor_from_json
from sandseal_host.api.settings import JsonLimits
from sandseal_host.api.signature import Signature, check_type, read_shape
from sandseal_host.api.terms import Terms, read_terms
from sandseal_host.errors import RequestInvalid, UnsupportedRequest
from sandseal_host.tensors import Tensor, check_shape
from sandseal_signing.manifest import Manifest
from sandseal_signing.tensor import TensorSpec

T = TypeVar("T")

_MAX_PLANS, _MAX_PLANNED_BYTES = 256, 4096
_NOTHING: JsonObject = {}


class RequestDecoder:
    """Decodes the requests of one model.

    Clients repeat what surrounds their data byte for byte; what it says is worked out once and remembered.

    Args:
        manifest: whose public inputs and outputs count.
        default: the terms of requests that name none.
        limits: what their JSON may have.
    """

    def __init__(self, manifest: Manifest, default: Terms, limits: JsonLimits | None = None) -> None:
        self.signature = Signature(manifest)
        self._default, self._limits = default, limits or JsonLimits()
        self._plans: dict[bytes, Plan] = {}
        self._skeletons: dict[bytes, tuple[JsonSlot, Plan]] = {}

    def decode(self, body: memoryview, header_length: int) -> Inference:
        """Decode a request whose first `header_length` bytes are JSON.

        Raises:
            RequestInvalid: not JSON, not the protocol's form, or not the model's signature.
            UnsupportedRequest: asks for shared memory.
        """
        text = bytes(body[:header_length])
        if header_length == len(body):
            return self._decode_json(text)
        if header_length > _MAX_PLANNED_BYTES:
            return self._plan(text).fill(body)
        plan = self._plans.get(text)
        if plan is None:
            plan = self._plan(text)
            if plan.all_binary and plan.terms.nonce is None:
                _remember(self._plans, text, plan)
        return plan.fill(body)

    def decode_raw(self, body: memoryview, lead: bytes = b"", *, binary: bool = True) -> Inference:
        """Decode a body that is nothing but the model's only input.

        The batch axis is 1, one other axis may be free and follows from the length; a BYTES input gets the body as its
        one element.

        Args:
            lead: what stood before it: a JSON object with the request's parameters, or nothing.
            binary: how the outputs are wanted, since such a request has no place to say it.

        Raises:
            RequestInvalid: the model or the length does not allow that; the lead has other members.
        """
        if len(self.signature.inputs) != 1:
            names = list(self.signature.inputs)
            raise RequestInvalid(
                f"a body without JSON needs a model with one input, this one has {names}",
                hint="send the inputs as JSON or with Inference-Header-Content-Length",
                inputs=names,
            )
        (spec,) = self.signature.inputs.values()
        axes: dict[str, int] = {}
        entry = raw_input(spec, body)
        check_shape(spec, entry.shape, axes)
        terms = self._led_by(lead) if lead else self._default
        return Plan((entry,), axes.get("batch", 1), terms, len(body), binary=binary).fill(body)

    def decode_generate(self, body: memoryview) -> Inference:
        """Decode a request of the generate extension; raises as `read_generate` does."""
        return read_generate(load_object(bytes(body), limits=self._limits), self.signature, self._default)

    def _led_by(self, lead: bytes) -> Terms:
        document = load_object(lead, "what stands before the body", self._limits)
        if others := sorted(set(document) - {"parameters"}):
            raise RequestInvalid(f"what stands before the body has {others[0][:80]!r}; it may have 'parameters' alone")
        return read_terms(_member(document, "parameters", dict, _NOTHING), self._default)

    def _decode_json(self, text: bytes) -> Inference:
        """A request that is JSON to its end; only the numbers are read when the rest is known."""
        split = split_data(text)
        if split and (known := self._skeletons.get(split[0])):
            slot, plan = known
            tensor = slot.read(split[1])
            if tensor is not None:
                return Inference((tensor,), plan)
        plan = self._plan(text)
        if split and plan.terms.nonce is None:  # a nonce comes once
            self._learn(split[0], plan)
        return plan.fill(memoryview(text))

    def _learn(self, skeleton: bytes, plan: Plan) -> None:
        """Remember what a skeleton says, if it is one."""
        (spec, *others), tensor = self.signature.inputs.values(), plan.inputs[0]
        if len(skeleton) <= _MAX_PLANNED_BYTES and not others and isinstance(tensor, Tensor) and is_skeleton(skeleton):
            _remember(self._skeletons, skeleton, (JsonSlot(spec, tensor.shape), replace(plan, inputs=())))

    def _plan(self, text: bytes) -> Plan:
        document = load_object(text, limits=self._limits)
        parameters = _member(document, "parameters", dict, _NOTHING)
        binary = _member(parameters, "binary_data_output", bool, False)
        axes: dict[str, int] = {}
        booleans = b"true" in text or b"false" in text
        inputs, end = self._all_inputs(_member(document, "inputs", list), len(text), axes, booleans)
        return Plan(
            inputs,
            axes.get("batch", 1),
            read_terms(parameters, self._default),
            end,
            id=_member(document, "id", str, ""),
            outputs=self._wanted(_member(document, "outputs", list, ()), binary),
            binary=binary,
        )

    def _all_inputs(
        self, documents: list[Any], start: int, axes: dict[str, int], booleans: bool
    ) -> tuple[tuple[Tensor | BinarySlot, ...], int]:
        """The inputs in the model's order, and where the binary ones, which follow the JSON's order, end."""
        found: dict[str, Tensor | BinarySlot] = {}
        for document in documents:
            name = _member(document, "name", str)
            spec = self.signature.input(name)
            if name in found:
                raise RequestInvalid(f"input {name!r} stands twice in the request", tensor=name)
            entry = found[name] = _input(spec, document, start, axes, booleans)
            start += entry.size if isinstance(entry, BinarySlot) else 0
        return self.signature.in_order(found), start

    def _wanted(self, documents: "list[Any] | tuple[()]", binary: bool) -> Mapping[str, Wanted] | None:
        """Which outputs were asked for; an empty list means all of them, as it does to Triton."""
        wanted: dict[str, Wanted] = {}
        for document in documents:
            name = _member(document, "name", str)
            spec = self.signature.output(name)
            parameters = _member(document, "parameters", dict, _NOTHING)
            if "shared_memory_region" in parameters:
                raise UnsupportedRequest(
                    "this host shares no memory with its clients", hint="take the tensor from the body"
                )
            classes = check_classes(spec, _member(parameters, "classification", int, 0))
            wanted[name] = Wanted(_member(parameters, "binary_data", bool, binary), classes)
        return wanted or None


def _remember(known: dict[bytes, T], text: bytes, meaning: T) -> None:
    if len(known) >= _MAX_PLANS:
        known.clear()
    known[text] = meaning


def _input(
    spec: TensorSpec, document: JsonObject, start: int, axes: dict[str, int], booleans: bool
) -> Tensor | BinarySlot:
    """One input: a tensor when its data is JSON, else where its bytes will be."""
    check_type(spec, _member(document, "datatype", str))
    shape = read_shape(spec, _member(document, "shape", list), axes)
    parameters = _member(document, "parameters", dict, _NOTHING)
    if "shared_memory_region" in parameters:
        raise UnsupportedRequest("this host shares no memory with its clients", hint="send the tensor in the body")
    size = _member(parameters, "binary_data_size", int, None)
    if (size is None) is ("data" not in document):
        raise RequestInvalid(f"input {spec.name!r} needs either data or parameters.binary_data_size", tensor=spec.name)
    if size is None:
        return tensor_from_json(spec, shape, document["data"], booleans=booleans)
    return BinarySlot(spec, shape, start, size)


def _member(document: Any, name: str, kind: type, default: Any = ...) -> Any:
    """A member of the JSON type asked for; `default`, if there is one, where it is absent or null."""
    if type(document) is not dict:
        raise RequestInvalid("an entry of inputs or outputs is not a JSON object")
    value = document.get(name)
    if type(value) is kind:
        return value
    if value is not None:
        raise RequestInvalid(f"member {name!r} must be {_KINDS[kind]}", member=name)
    if default is ...:
        raise RequestInvalid(f"member {name!r} is missing", member=name)
    return default


_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "an integer"}
