"""What a graph may contain: looked at before ONNX Runtime sees it."""

from collections.abc import Iterable, Iterator

import onnx
from google.protobuf.message import DecodeError

from sandseal_host.errors import ModelInvalid
from sandseal_signing.manifest import ModelSpec


def check_graph(spec: ModelSpec, model: bytes) -> tuple[str, ...]:
    """Check a serialised graph against what its manifest declares; nothing but these bytes is read.

    Args:
        spec: says which operator domains and external files the graph may use.
        model: an ONNX ModelProto.

    Returns:
        The locations of its external data, each the name of a declared file relative to the graph's folder.

    Raises:
        ModelInvalid: not ONNX, an operator of a domain that is not declared, a node with precompiled code, or
            external data that is not exactly the declared files.
    """
    try:
        proto = onnx.load_model_from_string(model)
    except DecodeError as error:
        raise ModelInvalid(f"{spec.file} is not an ONNX model", file=spec.file) from error
    graphs = list(_graphs(proto.graph))
    nodes = [node for graph in graphs for node in graph.node]
    for function in proto.functions:
        inner = [graph for node in function.node for graph in _subgraphs(node)]
        graphs += inner
        nodes += [*function.node, *(node for graph in inner for node in graph.node)]
    _check_nodes(spec, nodes)
    return _external_data(spec, graphs, nodes)


def has_control_flow(model: bytes) -> bool:
    """Whether a valid graph holds branches or loops, whose kernels differ from run to run."""
    return any(True for node in onnx.load_model_from_string(model).graph.node for _ in _subgraphs(node))


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        yield from _subgraphs(node)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            if graph.node or graph.initializer:
                yield from _graphs(graph)


def _check_nodes(spec: ModelSpec, nodes: Iterable[onnx.NodeProto]) -> None:
    declared = {"" if domain == "ai.onnx" else domain for domain in spec.domains}
    for node in nodes:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in declared:
            raise ModelInvalid(
                f"{spec.file} uses {node.op_type} of the operator domain {domain!r}, which the manifest does not list",
                hint="add the domain to model.domains in bundle.json, if it is meant to be used",
                domain=domain, operator=node.op_type, node=node.name,
            )  # fmt: skip
        if node.op_type == "EPContext":
            raise ModelInvalid(
                f"{spec.file} holds precompiled code (EPContext), which is not run",
                hint="ship the original graph",
                node=node.name,
            )


def _external_data(
    spec: ModelSpec, graphs: Iterable[onnx.GraphProto], nodes: Iterable[onnx.NodeProto]
) -> tuple[str, ...]:
    found = {location for graph in graphs for tensor in _weights(graph) for location in _locations(tensor)}
    hidden = [t for node in nodes for a in node.attribute for t in (a.t, *a.tensors) if _locations(t)]
    if hidden:
        raise ModelInvalid(f"{spec.file} has an attribute with external data, which only weights may have")
    folder = spec.file[: spec.file.rfind("/") + 1]
    used, declared = {folder + location for location in found}, set(spec.external_data)
    if used != declared:
        raise ModelInvalid(
            f"{spec.file} keeps weights in {sorted(used)}, but the manifest's external_data is {sorted(declared)}",
            used=sorted(used), declared=sorted(declared),
        )  # fmt: skip
    return tuple(sorted(found))


def _weights(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)


def _locations(tensor: onnx.TensorProto) -> list[str]:
    """Where a tensor's data lies outside the graph; one entry, or none."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return []
    return [entry.value for entry in tensor.external_data if entry.key == "location"] or [""]
