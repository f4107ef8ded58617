"""What an ONNX file says of itself, as the parts of a manifest: tensors, operator domains, external data."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx.shape_inference import infer_shapes

from sandseal_sdk.errors import ModelUnreadable

_DTYPES = {
    1: "FP32", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 8: "BYTES", 9: "BOOL",
    10: "FP16", 11: "FP64", 12: "UINT32", 13: "UINT64", 16: "BF16",
}  # fmt: skip
DEFAULT_MAX_ROWS, DEFAULT_DELAY_US = 32, 0  # a busy host fills its batches by itself; an idle one need not wait


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """The manifest's `model` member without its file, and the weight files beside the graph."""

    model: dict[str, Any]
    external_data: tuple[str, ...]


def summarise(path: Path) -> GraphSummary:
    """Read an ONNX file's signature; weights are not loaded.

    Rows are counted on axis 0 when every input and output leaves it free; such a model gets `batch` as its first axis
    and batches of up to 32 rows.

    Raises:
        ModelUnreadable: not ONNX, or a tensor without a type or shape that a manifest can state.
    """
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, OSError) as error:
        raise ModelUnreadable(f"{path} cannot be read as ONNX: {error}") from None
    graph = model.graph
    if not graph.output:
        raise ModelUnreadable(f"{path} is not an ONNX model: it has no outputs")
    if any(not _has_shape(value) for value in graph.output):
        graph = infer_shapes(model).graph
    weights = {initializer.name for initializer in graph.initializer}
    inputs = [_tensor(value) for value in graph.input if value.name not in weights]
    outputs = [_tensor(value) for value in graph.output]
    batched = all(tensor["shape"] and isinstance(tensor["shape"][0], str) for tensor in (*inputs, *outputs))
    summary: dict[str, Any] = {"domains": domains(model), "inputs": inputs, "outputs": outputs}
    if batched:
        for tensor in (*inputs, *outputs):
            tensor["shape"][0] = "batch"
        summary["batching"] = {"max_rows": DEFAULT_MAX_ROWS, "max_delay_us": DEFAULT_DELAY_US}
    external = external_files(model)
    if external:
        summary["external_data"] = list(external)
    return GraphSummary(summary, external)


def domains(model: Any) -> list[str]:
    """The operator domains that a graph uses, in order."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    own = {function.domain for function in model.functions}
    return sorted({_domain(node.domain) for node in walk_nodes(nodes)} - own or {""})


def external_files(model: Any) -> tuple[str, ...]:
    """The files beside a graph that its weights lie in, in order."""
    outside = [each for each in model.graph.initializer if each.data_location == onnx.TensorProto.EXTERNAL]
    return tuple(sorted({e.value for each in outside for e in each.external_data if e.key == "location"}))


def _has_shape(value: Any) -> bool:
    return bool(value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"))


def _tensor(value: Any) -> dict[str, Any]:
    kind = value.type.tensor_type
    if not _has_shape(value) or kind.elem_type not in _DTYPES:
        raise ModelUnreadable(
            f"tensor {value.name!r} has no tensor type and shape that a manifest can state",
            hint="export the model with tensor outputs (no ZipMap, no sequences) and with shapes",
        )
    return {
        "name": value.name,
        "dtype": _DTYPES[kind.elem_type],
        "shape": [_axis(value.name, i, dim) for i, dim in enumerate(kind.shape.dim)],
    }


def _axis(tensor: str, index: int, dim: Any) -> int | str:
    """A fixed size, or a name that is an identifier; `batch` is kept for rows on axis 0."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    name = re.sub(r"\W", "_", dim.dim_param or f"{tensor}_{index}", flags=re.ASCII)
    if not name.isidentifier() or (name == "batch" and index):
        name = f"axis_{name}"
    return name


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def walk_nodes(nodes: list[Any]) -> Iterator[Any]:
    """Every node, those of subgraphs included."""
    while nodes:
        node = nodes.pop()
        yield node
        for attribute in node.attribute:
            nodes += attribute.g.node
            nodes += [inner for graph in attribute.graphs for inner in graph.node]
