"""What a bundle takes over from a model's config.pbtxt, and what it leaves, each with what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.text_format import ParseError

from sandseal_sdk.errors import RepositoryInvalid
from sandseal_sdk.triton.text_format import Message, parse_text_format

_BACKENDS = ("", "onnxruntime", "onnxruntime_onnx")
_DTYPES = {"STRING": "BYTES"}  # the others are called alike
_ELSEWHERE = {
    "instance_group": "the operator's: `instances` in the serving rules, devices in the host's settings",
    "version_policy": "the operator's: `versions` in the serving rules",
    "model_warmup": "left out: a host warms every version up before it serves",
    "optimization": "left out: the host chooses graph optimisation, pinned memory and CUDA graphs itself",
    "sequence_batching": "left out: say in the manifest which outputs become which inputs",
    "ensemble_scheduling": "left out: build the chain as pre and post plugins",
    "response_cache": "left out",
    "parameters": "left out: they are the backend's own",
    "reshape": "left out: the public shape is the graph's",
    "label_filename": "left out: a post plugin gives names instead of numbers",
    "is_shape_tensor": "left out: ONNX Runtime has none",
}


@dataclass(frozen=True, slots=True)
class TensorConfig:
    """A tensor as the file has it: the protocol's data type, and the sizes behind the batch axis, -1 for any."""

    dtype: str
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TritonConfig:
    """A config.pbtxt.

    Args:
        name: the model's; empty when the file does not say.
        file: the graph's, in each version's folder.
        max_rows: 0 where Triton does not batch; None where the file does not say.
        max_delay_us: how long the first row may wait for others, in microseconds.
        tensors: by name.
        unmapped: members that are left out, each with what to do about it.
    """

    name: str = ""
    file: str = "model.onnx"
    max_rows: int | None = None
    max_delay_us: int = 0
    tensors: Mapping[str, TensorConfig] = field(default_factory=dict)
    unmapped: Mapping[str, str] = field(default_factory=dict)


def read_config(path: Path) -> TritonConfig:
    """Read a config.pbtxt.

    Raises:
        RepositoryInvalid: unreadable, or of a model that ONNX Runtime does not run.
    """
    try:
        fields = parse_text_format(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ParseError) as error:
        raise RepositoryInvalid(f"{path} cannot be read: {error}") from None
    for member in ("backend", "platform"):
        if (backend := _take(fields, member, "")) not in _BACKENDS:
            raise RepositoryInvalid(
                f"{path} has {member} {backend!r}; only ONNX models can be taken in",
                hint="export the model to ONNX first",
            )
    batching = _take(fields, "dynamic_batching", {})
    tensors: dict[str, TensorConfig] = {}
    unmapped: dict[str, str] = {}
    for tensor in (*fields.pop("input", []), *fields.pop("output", [])):
        name, dtype = _take(tensor, "name", ""), _take(tensor, "data_type", "").removeprefix("TYPE_")
        tensors[name] = TensorConfig(_DTYPES.get(dtype, dtype), tuple(tensor.pop("dims", ())))
        unmapped |= {f"{name}.{left}": _advice(left) for left in tensor}
    return TritonConfig(
        _take(fields, "name", ""),
        _take(fields, "default_model_filename", "model.onnx"),
        _take(fields, "max_batch_size", 0),
        _take(batching, "max_queue_delay_microseconds", 0),
        tensors,
        unmapped
        | {f"dynamic_batching.{left}": "the operator's: classes and bounds in the serving rules" for left in batching}
        | {left: _advice(left) for left in fields},
    )


def _take(fields: Message, name: str, default: Any) -> Any:
    """Take a member out; its last value counts, as in protobuf."""
    return fields.pop(name, [default])[-1]


def _advice(name: str) -> str:
    return _ELSEWHERE.get(name, "left out: a bundle has nothing like it")
