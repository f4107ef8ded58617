"""Which nodes of a session run where, by ONNX Runtime's own account."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

RECORD = "session.record_ep_graph_assignment_info"

# ONNX Runtime puts what computes shapes on the CPU on purpose (onnxruntime#4940), and `disable_cpu_ep_fallback` would
# refuse every model that has such nodes; nothing in this list is a model's own work.
_SHAPES = frozenset({
    "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand", "Floor",
    "Gather", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "Range",
    "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "ScatterND", "Shape", "Size", "Slice", "Split",
    "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip


def misplaced(parts: Iterable[Any], provider: str) -> Counter[str]:
    """Nodes that another provider runs although they do more than compute shapes, by operator.

    Args:
        parts: `get_provider_graph_assignment_info()` of a session that was told to `RECORD`.
        provider: the one that should run them.
    """
    elsewhere = [node.op_type for part in parts if part.ep_name != provider for node in part.get_nodes()]
    return Counter(kind for kind in elsewhere if kind not in _SHAPES)
