r"""A plugin's test cases: cases/NAME.json beside its source.

    {
      "inputs": {"content": "#!/bin/sh\n"},
      "outputs": {"label": ["shell"], "score": [0.98]},    absent: only that the call succeeds is checked
      "tolerance": 1e-5,                                   relative and absolute, of floating-point outputs
      "parameters": {"top_k": 3}                           the request's parameters
    }

or, in place of "outputs", "refused": a part of the text with which the plugin refuses the input, or "fails": the code
of the error (plugin_trapped, plugin_timeout, ...).

A tensor is written as a number, text or a nested list of them, or as one of the objects

    {"file": "scan.png"}              bytes of a file beside the case; a .npy file is an array
    {"base64": "AAEC"}                bytes
    {"shape": [1, 3], "fill": 0.5, "set": [[0, 2, 0.9]]}     one value, then index and value of exceptions
    {"shape": [224, 224, 3], "random": 7}                    seeded: any integers, or floats from 0 to 1

Bytes (and text, as UTF-8) are the elements of a UINT8 tensor, or one element of a BYTES tensor.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandseal_sdk.errors import CaseInvalid
from sandseal_sdk.plugin_spec import PluginSpec
from sandseal_signing.errors import SandsealError
from sandseal_signing.manifest import DataType, TensorSpec
from sandseal_signing.schema import Node, parse_json

FOLDER = "cases"


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor in a case.

    Args:
        shape: its sizes.
        data: an array of that shape; for BYTES the elements, row-major.
    """

    shape: tuple[int, ...]
    data: NDArray[Any] | Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """One call and what must come of it.

    Args:
        name: the file's name without .json.
        inputs: in the order of the stage's spec.
        outputs: wanted values by name; those left out are not compared.
        tolerance: of floating-point outputs.
        parameters: the request's, as JSON.
        refused: part of the refusal's text, when the input must be refused.
        fails: the wanted error's code, when the call must fail.
    """

    name: str
    inputs: Sequence[Value]
    outputs: dict[str, Value]
    tolerance: float
    parameters: bytes
    refused: str | None
    fails: str | None


def read_cases(spec: PluginSpec) -> Sequence[Case]:
    """Read all of a plugin's cases, by name.

    Raises:
        CaseInvalid: there is none, or one cannot be read; the message names file and place.
    """
    paths = sorted((spec.folder / FOLDER).glob("*.json"))
    if not paths:
        raise CaseInvalid(
            f"{spec.folder / FOLDER} holds no test case", hint='write one: cases/first.json with {"inputs": {...}}'
        )
    return [_read(path, spec) for path in paths]


def numpy_type(dtype: DataType) -> np.dtype[Any]:
    """The element type of an array for a tensor; BF16 as its 16 bits."""
    return np.dtype("uint16" if dtype is DataType.BF16 else dtype.lower().replace("fp", "float"))


def _read(path: Path, spec: PluginSpec) -> Case:
    try:
        node = Node(parse_json(path.read_bytes(), path.name), "", CaseInvalid)
        case = _case(path, node, spec)
        node.close()
    except (OSError, ValueError) as error:
        raise CaseInvalid(f"{path}: {error}") from None
    except SandsealError as error:
        raise CaseInvalid(f"{path}: {error.message}", **error.data) from None
    return case


def _case(path: Path, node: Node, spec: PluginSpec) -> Case:
    inputs, wanted = node.child("inputs"), node.child("outputs", None)
    tolerance = node.take("tolerance", 1e-5)
    if not isinstance(tolerance, (int, float)):
        node.fail("tolerance", "must be a number")
    case = Case(
        name=path.stem,
        inputs=[_value(inputs, tensor, path.parent) for tensor in spec.inputs],
        outputs=dict(_outputs(wanted, spec, path.parent)) if wanted else {},
        tolerance=float(tolerance),
        parameters=json.dumps(node.take("parameters", {})).encode(),
        refused=node.text("refused", None),
        fails=node.text("fails", None),
    )
    inputs.close()
    if sum((bool(wanted), case.refused is not None, case.fails is not None)) > 1:
        node.fail("", 'has more than one of "outputs", "refused" and "fails"')
    return case


def _outputs(node: Node, spec: PluginSpec, folder: Path) -> Iterator[tuple[str, Value]]:
    for tensor in spec.outputs:
        if node.has(tensor.name):
            yield tensor.name, _value(node, tensor, folder)
    node.close()


def _value(node: Node, tensor: TensorSpec, folder: Path) -> Value:
    written = node.take(tensor.name)
    if isinstance(written, dict):
        return _made(node.at(tensor.name), written, tensor, folder)
    if isinstance(written, str):
        return _of_bytes(written.encode(), tensor)
    if tensor.dtype is DataType.BYTES:
        elements = np.array(written, dtype=object)
        return Value(elements.shape, [str(text).encode() for text in elements.ravel()])
    return _of_array(np.array(written), tensor)


def _made(where: str, written: dict[str, Any], tensor: TensorSpec, folder: Path) -> Value:
    """A value that an object describes."""
    node = Node(written, where, CaseInvalid)
    if node.has("file"):
        value = _of_file(folder / node.text("file"), tensor)
    elif node.has("base64"):
        value = _of_bytes(_decoded(node), tensor)
    elif node.has("random"):
        value = Value(shape := _shape(node), _random(shape, node.integer("random"), tensor))
    else:
        array = np.full(_shape(node), node.take("fill", 0))
        array = array.astype(numpy_type(tensor.dtype))
        for *index, element in node.take("set", []):
            array[tuple(index)] = element
        value = Value(array.shape, array)
    node.close()
    return value


def _shape(node: Node) -> tuple[int, ...]:
    shape = node.take("shape")
    if not isinstance(shape, list) or not all(type(axis) is int and axis >= 0 for axis in shape):
        node.fail("shape", "must be a list of sizes")
    if prod(shape) > 1 << 28:
        node.fail("shape", "is too large for a test")
    return tuple(shape)


def _decoded(node: Node) -> bytes:
    try:
        return base64.b64decode(node.text("base64", valid=lambda text: True), validate=True)
    except binascii.Error as error:
        node.fail("base64", str(error))


def _of_file(path: Path, tensor: TensorSpec) -> Value:
    if path.suffix == ".npy":
        return _of_array(np.load(path, allow_pickle=False), tensor)
    return _of_bytes(path.read_bytes(), tensor)


def _of_bytes(data: bytes, tensor: TensorSpec) -> Value:
    if tensor.dtype is DataType.BYTES:
        return Value((1,) * len(tensor.shape), [data])
    array = np.frombuffer(data, np.uint8)
    return _of_array(array if tensor.dtype is DataType.UINT8 else array.view(numpy_type(tensor.dtype)), tensor)


def _of_array(array: NDArray[Any], tensor: TensorSpec) -> Value:
    cast = array.astype(numpy_type(tensor.dtype))
    return Value(cast.shape, cast)


def _random(shape: tuple[int, ...], seed: int, tensor: TensorSpec) -> NDArray[Any]:
    source, kind = np.random.default_rng(seed), numpy_type(tensor.dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return source.integers(limits.min, limits.max, shape, kind, endpoint=True)
    return source.random(shape).astype(kind)
