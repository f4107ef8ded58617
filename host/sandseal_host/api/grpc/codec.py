"""Inference messages into tensors, checked against the model's public signature, and tensors into messages."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sandseal_host.api.binary_tensor import BinarySlot
from sandseal_host.api.classification import check_classes, chosen
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.messages import Message
from sandseal_host.api.inference import Inference, Plan, Wanted
from sandseal_host.api.json_tensor import tensor_from_json
from sandseal_host.api.signature import Signature, check_type, read_shape
from sandseal_host.api.terms import Terms, read_terms
from sandseal_host.errors import RequestInvalid, UnsupportedRequest
from sandseal_host.serving.request import Response
from sandseal_host.tensors import Tensor, pack_bytes
from sandseal_signing.manifest import Manifest
from sandseal_signing.tensor import DataType, TensorSpec
from sandseal_signing.variants import Precision

_CONTENTS = {
    DataType.BOOL: "bool_contents",
    DataType.INT8: "int_contents",
    DataType.INT16: "int_contents",
    DataType.INT32: "int_contents",
    DataType.INT64: "int64_contents",
    DataType.UINT8: "uint_contents",
    DataType.UINT16: "uint_contents",
    DataType.UINT32: "uint_contents",
    DataType.UINT64: "uint64_contents",
    DataType.FP32: "fp32_contents",
    DataType.FP64: "fp64_contents",
    DataType.BYTES: "bytes_contents",
}


def decode(message: Message, signature: Signature, default: Terms) -> Inference:
    """The inference that a message asks for; raw tensors view its bytes.

    Args:
        message: as it came.
        signature: the model's public inputs and outputs.
        default: the terms of requests that name none.

    Raises:
        RequestInvalid: it is not the model's signature, or not the protocol's form.
        UnsupportedRequest: it asks for shared memory or a receipt.
    """
    raw: Sequence[bytes] = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise RequestInvalid(
            f"raw_input_contents has {len(raw)} elements for {len(message.inputs)} inputs",
            hint="send all inputs as raw bytes or none of them",
            got=len(raw), wanted=len(message.inputs),
        )  # fmt: skip
    axes: dict[str, int] = {}
    found: dict[str, Tensor] = {}
    for i, given in enumerate(message.inputs):
        spec = signature.input(given.name)
        if given.name in found:
            raise RequestInvalid(f"input {given.name!r} stands twice in the request", tensor=given.name)
        found[given.name] = _tensor(spec, given, raw[i] if raw else None, axes)
    terms = read_terms(_values(message.parameters), default)
    if terms.nonce is not None:
        raise UnsupportedRequest("receipts are about HTTP bodies", hint="ask for the receipt through REST")
    plan = Plan((), axes.get("batch", 1), terms, 0, id=message.id, outputs=_outputs(signature, message.outputs))
    return Inference(signature.in_order(found), plan)


def encode(manifest: Manifest, precision: Precision | None, plan: Plan, response: Response) -> Message:
    """The message that answers: outputs in the model's order, as raw bytes; it names the stages that were left out."""
    batched = {spec.name for spec in manifest.outputs if spec.batched}
    told = {f"sandseal.skipped.{stage}": messages.InferParameter(bool_param=True) for stage in response.skipped}
    if precision is not None:
        told["sandseal.precision"] = messages.InferParameter(string_param=precision)
    outputs = [tensor for tensor, _ in chosen(plan, response.outputs, batched)]
    return messages.ModelInferResponse(
        model_name=manifest.name,
        model_version=str(manifest.version),
        id=plan.id,
        parameters=told,
        outputs=[
            messages.ModelInferResponse.InferOutputTensor(name=t.name, datatype=str(t.dtype), shape=t.shape)
            for t in outputs
        ],
        raw_output_contents=[tensor.data.tobytes() for tensor in outputs],
    )


def _outputs(signature: Signature, documents: Sequence[Any]) -> Mapping[str, Wanted] | None:
    """The outputs asked for; all are sent raw."""
    wanted = {}
    for document in documents:
        spec = signature.output(document.name)
        _no_shared_memory(document)
        classes = document.parameters["classification"].int64_param if "classification" in document.parameters else 0
        wanted[spec.name] = Wanted(True, check_classes(spec, classes))
    return wanted or None


def _tensor(spec: TensorSpec, given: Any, raw: bytes | None, axes: dict[str, int]) -> Tensor:
    check_type(spec, given.datatype)
    shape = read_shape(spec, given.shape, axes)
    _no_shared_memory(given)
    if raw is None:
        return _typed(spec, shape, given.contents)
    if given.HasField("contents"):
        raise RequestInvalid(f"input {spec.name!r} has contents beside raw_input_contents", tensor=spec.name)
    return BinarySlot(spec, shape, 0, len(raw)).view(memoryview(raw))


def _typed(spec: TensorSpec, shape: tuple[int, ...], contents: Message) -> Tensor:
    field = _CONTENTS.get(spec.dtype)
    if field is None:
        raise RequestInvalid(
            f"input {spec.name!r}: {spec.dtype} has no typed contents",
            hint="send it in raw_input_contents",
            tensor=spec.name,
        )
    if strange := [other.name for other, _ in contents.ListFields() if other.name != field]:
        raise RequestInvalid(f"input {spec.name!r} of type {spec.dtype} has {', '.join(strange)}", tensor=spec.name)
    values = list(getattr(contents, field))
    if spec.dtype is not DataType.BYTES:
        return tensor_from_json(spec, shape, values)
    if len(values) != int(np.prod(shape)):
        raise RequestInvalid(
            f"tensor {spec.name!r} has {len(values)} elements for the shape {list(shape)}", tensor=spec.name
        )
    return Tensor(spec.name, spec.dtype, shape, pack_bytes(values))


def _no_shared_memory(tensor: Any) -> None:
    if any(name.startswith("shared_memory") for name in tensor.parameters):
        raise UnsupportedRequest(
            f"{tensor.name!r}: this host shares no memory with its clients", hint="send tensors in the message"
        )


def _values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: getattr(value, value.WhichOneof("parameter_choice") or "bool_param") for name, value in parameters.items()
    }
