"""What a loaded graph takes and gives, against what its manifest says."""

from collections.abc import Sequence

import onnxruntime

from sandseal_host.errors import ModelInvalid
from sandseal_signing.manifest import ModelSpec
from sandseal_signing.tensor import DataType, TensorSpec

_TYPES = {
    "tensor(bool)": DataType.BOOL,
    "tensor(uint8)": DataType.UINT8,
    "tensor(uint16)": DataType.UINT16,
    "tensor(uint32)": DataType.UINT32,
    "tensor(uint64)": DataType.UINT64,
    "tensor(int8)": DataType.INT8,
    "tensor(int16)": DataType.INT16,
    "tensor(int32)": DataType.INT32,
    "tensor(int64)": DataType.INT64,
    "tensor(float16)": DataType.FP16,
    "tensor(float)": DataType.FP32,
    "tensor(double)": DataType.FP64,
    "tensor(bfloat16)": DataType.BF16,
    "tensor(string)": DataType.BYTES,
}


def check_signature(spec: ModelSpec, session: onnxruntime.InferenceSession) -> None:
    """Compare names, data types, ranks and fixed axes.

    The manifest may fix an axis that the graph leaves free, never the reverse.

    Raises:
        ModelInvalid: they differ; the message names the tensor and both sides.
    """
    _check_side("input", spec.inputs, session.get_inputs())
    _check_side("output", spec.outputs, session.get_outputs())


def _check_side(side: str, specs: Sequence[TensorSpec], args: Sequence[onnxruntime.NodeArg]) -> None:
    graph = {arg.name: arg for arg in args}
    names = {spec.name for spec in specs}
    if names != set(graph):
        raise ModelInvalid(
            f"the graph's {side}s are {sorted(graph)}, but the manifest's are {sorted(names)}",
            graph=sorted(graph), manifest=sorted(names),
        )  # fmt: skip
    for spec in specs:
        _check_tensor(side, spec, graph[spec.name])


def _check_tensor(side: str, spec: TensorSpec, arg: onnxruntime.NodeArg) -> None:
    data = {"tensor": spec.name, "graph": f"{arg.type} {arg.shape}", "manifest": f"{spec.dtype} {list(spec.shape)}"}
    if _TYPES.get(arg.type) is not spec.dtype:
        raise ModelInvalid(f"{side} {spec.name!r} is {arg.type} in the graph, but {spec.dtype} in the manifest", **data)
    # A shape that the graph does not know also comes as []; the warm-up run and each run check it.
    if arg.shape and not _shapes_agree(spec, arg.shape):
        raise ModelInvalid(
            f"{side} {spec.name!r} has shape {arg.shape} in the graph, but {list(spec.shape)} in the manifest", **data
        )


def _shapes_agree(spec: TensorSpec, shape: Sequence[int | str | None]) -> bool:
    return len(shape) == len(spec.shape) and all(
        size == axis for size, axis in zip(shape, spec.shape, strict=True) if isinstance(size, int)
    )
