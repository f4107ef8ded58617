"""What passes between the host and a sandbox worker.

Descriptions travel in messages over a socket, so that what the host checks is its own copy. Only the tensors' data
and the request's parameters lie in the region that both can write (`region.py`). Everything is little-endian
and the first byte of a message is its kind.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from sandseal_host.error_members import error_members, rebuilt_error
from sandseal_host.errors import ClientGone, InputRefused, PluginError, QueueFull, RequestInvalid
from sandseal_host.sandbox.printable import printable
from sandseal_signing.errors import JsonInvalid, SandsealError
from sandseal_signing.schema import Node, parse_json

MAX_MESSAGE = 64 << 10  # bytes
MAX_TENSORS = 512  # in or out; their descriptions fit into a message
_MAX_TEXT = 8_192  # characters of an error's message or hint
# What a worker may answer a call with; another error would be one that no call can have.
_ERRORS = (PluginError, InputRefused, RequestInvalid, QueueFull, ClientGone)

_NUMBER = struct.Struct("<I")
_STREAM = struct.Struct("<Q")
_ORDER = struct.Struct("<QIHBIQB")
_ANSWER = struct.Struct("<QQQQIB")
_COUNT = struct.Struct("<H")
_TENSOR = struct.Struct("<QB")
_LOG = struct.Struct("<IB")


class Kind(IntEnum):
    """Kinds of messages: the first four come from the host."""

    LOAD = 1  # a plugin's number; the plugin itself is in a sealed file that comes along
    DROP = 2  # a plugin's number
    ORDERS = 3
    END = 4  # a stream's number: its instance is not needed any more
    READY = 5  # what the system could not take away from the worker, as JSON
    LOG = 6
    ANSWER = 7


class BrokenMessage(Exception):
    """Room-internal: what a worker says makes no sense; it is not to be relied on any more."""


class Described(NamedTuple):
    """A tensor's size in bytes and its shape; name and type are those of the stage's spec."""

    size: int
    shape: tuple[int, ...]


class Order(NamedTuple):
    """A call handed over.

    Args:
        number: of the call; the answer has it too.
        plugin: number of the plugin.
        slot: where its data lies.
        trial: only see that the plugin can be used; nothing is called.
        parameters: their length in bytes.
        stream: number of the stream whose instance is called, at its first call a fresh one; 0 for one of its own.
        flags: as `Instance.call` takes them.
        inputs: in the order of the spec.
    """

    number: int
    plugin: int
    slot: int
    trial: bool
    parameters: int
    stream: int
    flags: int
    inputs: Sequence[Described]


class Answer(NamedTuple):
    """What became of an order.

    Args:
        number: the order's.
        wall_s, cpu_s: seconds that it took, and of CPU time in guest code.
        memory_bytes: the guest's linear memory at the end.
        dropped: log lines that were dropped since the last answer.
        outputs: in the order of the spec; none where it failed.
        error: why it failed.
    """

    number: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    dropped: int = 0
    outputs: Sequence[Described] = ()
    error: SandsealError | None = None


def pack_number(kind: Kind, number: int) -> bytes:
    """A message about a plugin."""
    return bytes([kind]) + _NUMBER.pack(number)


def read_number(body: bytes | memoryview) -> int:
    """The plugin's number in such a message."""
    (number,) = _NUMBER.unpack_from(body)
    return int(number)


def pack_order(order: Order) -> bytes:
    """An order; several follow each other in one message."""
    *head, inputs = order
    return _ORDER.pack(*head) + _pack_tensors(inputs)


def read_orders(body: bytes | memoryview) -> Iterable[Order]:
    """The orders in a message's body."""
    at = 0
    while at < len(body):
        number, plugin, slot, trial, parameters, stream, flags = _ORDER.unpack_from(body, at)
        inputs, at = _read_tensors(body, at + _ORDER.size)
        yield Order(number, plugin, slot, bool(trial), parameters, stream, flags, inputs)


def pack_end(stream: int) -> bytes:
    """A message that ends a stream."""
    return bytes([Kind.END]) + _STREAM.pack(stream)


def read_end(body: bytes | memoryview) -> int:
    """The stream's number in such a message."""
    (stream,) = _STREAM.unpack_from(body)
    return int(stream)


def pack_answer(answer: Answer) -> bytes:
    """An answer's message."""
    error = answer.error
    rest = _pack_tensors(answer.outputs) if error is None else json.dumps(error_members(error)).encode()
    if len(rest) > MAX_MESSAGE - 256:
        assert error is not None  # noqa: S101 - the number of outputs is bounded
        rest = json.dumps({**error_members(error), "data": {}}).encode()
    head = _ANSWER.pack(
        answer.number, int(answer.wall_s * 1e9), int(answer.cpu_s * 1e9), answer.memory_bytes, answer.dropped,
        error is not None,
    )  # fmt: skip
    return bytes([Kind.ANSWER]) + head + rest


def read_answer(body: bytes) -> Answer:
    """An answer as a worker gave it, whatever has become of that worker.

    Raises:
        BrokenMessage: no worker that is in order writes this.
    """
    try:
        number, wall, cpu, memory, dropped, failed = _ANSWER.unpack_from(body)
        rest = body[_ANSWER.size :]
        outputs, end = ((), len(rest)) if failed else _read_tensors(rest, 0)
    except struct.error as error:
        raise BrokenMessage(str(error)) from error
    if end != len(rest):
        raise BrokenMessage("an answer has a wrong length")
    return Answer(
        number, wall / 1e9, cpu / 1e9, memory, dropped, outputs, read_error(rest, _ERRORS) if failed else None
    )


def pack_log(plugin: int, level: int, line: str) -> bytes:
    """A line that a plugin wrote; `level` is the ABI's."""
    return bytes([Kind.LOG]) + _LOG.pack(plugin, level) + line.encode("utf-8", "replace")


def read_log(body: bytes) -> tuple[int, int, bytes]:
    """The plugin, the level and the line.

    Raises:
        BrokenMessage: it is too short.
    """
    if len(body) < _LOG.size:
        raise BrokenMessage("a log line is cut short")
    plugin, level = _LOG.unpack_from(body)
    return plugin, level, body[_LOG.size :]


def pack_ready(missing: Sequence[str]) -> bytes:
    """A worker's first message: what the system could not take away from it."""
    return bytes([Kind.READY]) + json.dumps(list(missing)).encode()


def read_ready(body: bytes) -> tuple[str, ...]:
    """What a worker says that its system could not do.

    Raises:
        BrokenMessage: it is not the list that a worker writes.
    """
    try:
        return tuple(str(noun) for noun in json.loads(body))
    except (ValueError, TypeError) as error:
        raise BrokenMessage("a worker's first message is not a list") from error


def _pack_tensors(tensors: Sequence[Described]) -> bytes:
    packed = bytearray(_COUNT.pack(len(tensors)))
    for size, shape in tensors:
        packed += _TENSOR.pack(size, len(shape)) + struct.pack(f"<{len(shape)}q", *shape)
    return bytes(packed)


def _read_tensors(body: bytes | memoryview, at: int) -> tuple[Sequence[Described], int]:
    tensors = []
    (count,) = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    for _ in range(count):
        size, rank = _TENSOR.unpack_from(body, at)
        shape = struct.unpack_from(f"<{rank}q", body, at + _TENSOR.size)
        tensors.append(Described(size, shape))
        at += _TENSOR.size + 8 * rank
    return tensors, at


def read_error(body: bytes, allowed: tuple[type[SandsealError], ...]) -> SandsealError:
    """An error as a process of ours wrote it, whatever has become of that process.

    Args:
        allowed: what it may be.

    Raises:
        BrokenMessage: it is none of these.
    """
    try:
        node = Node(parse_json(body, "what a worker answers"), "", JsonInvalid)
        data = node.take("data")
        message, hint = (node.text(name, valid=_any, rule="a string") for name in ("message", "hint"))
        error = rebuilt_error(
            node.text("code"),
            printable(message, _MAX_TEXT),
            printable(hint, _MAX_TEXT),
            data if isinstance(data, dict) else {},
        )
    except (SandsealError, ValueError) as malformed:
        raise BrokenMessage("an answer's error is malformed") from malformed
    if not isinstance(error, allowed):
        raise BrokenMessage("a call cannot fail like this")
    return error


def _any(_: str) -> bool:
    return True
