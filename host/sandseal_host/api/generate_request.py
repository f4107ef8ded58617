"""Requests of Triton's generate extension: a JSON object whose members are inputs or parameters, as the model has them.

A member that is called like an input is that input: one value, or a list of them. All others are parameters, as are
those of the member `parameters`; `id` is echoed.
"""

from math import prod
from typing import Any

from sandseal_host.api.inference import Inference, Plan
from sandseal_host.api.json_document import JsonObject
from sandseal_host.api.json_tensor import tensor_from_json
from sandseal_host.api.signature import Signature, read_shape
from sandseal_host.api.terms import Terms, read_terms
from sandseal_host.errors import RequestInvalid
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import TensorSpec


def read_generate(document: JsonObject, signature: Signature, default: Terms) -> Inference:
    """The inference that a generate request asks for.

    Args:
        document: the request's body.
        signature: the model's public inputs and outputs.
        default: the terms of requests that name none.

    Raises:
        RequestInvalid: an input is missing, or cannot be made of what is given; a parameter is no scalar.
    """
    given, more = dict(document), document.get("parameters") or {}
    if type(more) is not dict:
        raise RequestInvalid("member 'parameters' must be an object", member="parameters")
    given.pop("parameters", None)
    name = given.pop("id", "")
    if type(name) not in (str, int):
        raise RequestInvalid("member 'id' must be a string", member="id")
    axes: dict[str, int] = {}
    found = {n: _input(spec, given.pop(n), axes) for n, spec in signature.inputs.items() if n in given}
    plan = Plan((), axes.get("batch", 1), read_terms({**given, **more}, default), 0, id=str(name))
    return Inference(signature.in_order(found), plan)


def _input(spec: TensorSpec, value: Any, axes: dict[str, int]) -> Tensor:
    """An input of a value, or of a list of as many as its shape takes."""
    data = value if type(value) is list else [value]
    return tensor_from_json(spec, read_shape(spec, _shape(spec, data), axes), data)


def _shape(spec: TensorSpec, data: list[Any]) -> list[int]:
    """The shape that data has: as it is nested, or else the last free axis takes what the fixed ones leave."""
    nested: list[int] = [len(data)]
    while data and type(data[0]) is list:
        data = data[0]
        nested.append(len(data))
    if len(nested) > 1:
        return nested
    free = [at for at, axis in enumerate(spec.shape) if isinstance(axis, str)]
    shape = [1 if isinstance(axis, str) else axis for axis in spec.shape]
    if free:
        shape[free[-1]] = nested[0] // (prod(shape) or 1)
    if prod(shape) != nested[0]:
        raise RequestInvalid(
            f"input {spec.name!r} has {nested[0]} values, which do not fill the shape {list(spec.shape)}",
            tensor=spec.name, got=nested[0],
        )  # fmt: skip
    return shape
