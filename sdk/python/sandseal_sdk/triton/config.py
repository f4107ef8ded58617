"""What a bundle takes over from a model's config.pbtxt, and what it leaves, each with what to do about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.text_format import ParseError

from sandseal_sdk.errors import RepositoryInvalid
from sandseal_sdk.triton.sequences import UNKNOWN, StateConfig, read_sequences
from sandseal_sdk.triton.tensors import TensorConfig, read_tensor
from sandseal_sdk.triton.text_format import Message, parse_text_format, take

_BACKENDS = ("", "onnxruntime", "onnxruntime_onnx")
_ELSEWHERE = {
    "instance_group": "the operator's: `instances` in the serving rules, devices in the host's settings",
    "version_policy": "the operator's: `versions` in the serving rules",
    "model_warmup": "left out: a host warms every version up before it serves",
    "optimization": "left out: the host chooses graph optimisation, pinned memory and CUDA graphs itself",
    "ensemble_scheduling": "left out: build the chain as pre and post plugins",
    "parameters": "left out: they are the backend's own",
    "reshape": "left out: the public shape is the graph's",
    "label_filename": "left out: a post plugin gives names instead of numbers",
    "is_shape_tensor": "left out: ONNX Runtime has none",
}


@dataclass(frozen=True, slots=True)
class TritonConfig:
    """A config.pbtxt.

    Args:
        name: the model's; empty when the file does not say.
        file: the graph's, in each version's folder.
        max_rows: 0 where Triton does not batch; None where the file does not say.
        max_delay_us: how long the first row may wait for others, in microseconds.
        tensors: by name.
        states: what a sequence goes on with.
        cache: whether answers are kept.
        unmapped: members that are left out, each with what to do about it.
    """

    name: str = ""
    file: str = "model.onnx"
    max_rows: int | None = None
    max_delay_us: int = 0
    tensors: Mapping[str, TensorConfig] = field(default_factory=dict)
    states: tuple[StateConfig, ...] = ()
    cache: bool = False
    unmapped: Mapping[str, str] = field(default_factory=dict)


def read_config(path: Path) -> TritonConfig:
    """Read a config.pbtxt.

    Raises:
        RepositoryInvalid: unreadable, or of a model that ONNX Runtime does not run, or that begins sequences otherwise.
    """
    try:
        fields = parse_text_format(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ParseError) as error:
        raise RepositoryInvalid(f"{path} cannot be read: {error}") from None
    for member in ("backend", "platform"):
        if (backend := take(fields, member, "")) not in _BACKENDS:
            raise RepositoryInvalid(
                f"{path} has {member} {backend!r}; only ONNX models can be taken in",
                hint="export the model to ONNX first",
            )
    batching = take(fields, "dynamic_batching", {})
    sequences = read_sequences(take(fields, "sequence_batching", {}), path.parent)
    cache = take(take(fields, "response_cache", {}), "enable", False)
    tensors, unmapped = _tensors((*fields.pop("input", ()), *fields.pop("output", ())))
    unmapped |= sequences.unmapped
    if cache and sequences.states:
        unmapped["response_cache"] = "left out: answers of sequences are not kept"
    return TritonConfig(
        take(fields, "name", ""),
        take(fields, "default_model_filename", "model.onnx"),
        take(fields, "max_batch_size", 0),
        take(batching, "max_queue_delay_microseconds", 0) or sequences.max_delay_us,
        tensors,
        sequences.states,
        cache and not sequences.states,
        unmapped
        | {f"dynamic_batching.{left}": "the operator's: classes and bounds in the serving rules" for left in batching}
        | {left: _advice(left) for left in fields},
    )


def _tensors(messages: Sequence[Message]) -> tuple[dict[str, TensorConfig], dict[str, str]]:
    """Tensors by name, and what they say that is left out."""
    tensors: dict[str, TensorConfig] = {}
    unmapped: dict[str, str] = {}
    for tensor in messages:
        name = take(tensor, "name", "")
        tensors[name] = read_tensor(tensor)
        unmapped |= {f"{name}.{left}": _advice(left) for left in tensor}
    return tensors, unmapped


def _advice(name: str) -> str:
    return _ELSEWHERE.get(name, UNKNOWN)
