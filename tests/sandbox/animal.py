"""One guest of the zoo and its kinds, and the words that its WebAssembly text is put together from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.guests import (
    ABI,
    ALIAS,
    ALLOC,
    DONE,
    ECHO,
    HELPERS,
    guest,
    stage_spec,
    tensor_spec,
    wasm,
)
from sandseal_host.errors import (
    HostError,
    PluginBadOutput,
    PluginInvalid,
    PluginOutOfMemory,
    PluginTimeout,
    PluginTrapped,
)
from sandseal_signing.stage import StageSpec
from sandseal_signing.tensor import TensorSpec

SPEC = stage_spec(time_ms=50)


@dataclass(frozen=True)
class Animal:
    """One guest.

    Args:
        loads: the error comes with the first call; else the module is refused.
        error: its class, exactly.
        says: its message.
        data: what the error carries at least.
    """

    module: bytes
    loads: bool
    error: type[HostError]
    says: str
    spec: StageSpec = SPEC
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """A regular expression for the whole message."""
        return re.sub(r"(?<!\\)\.\.\.", ".*", self.says)


def invalid(module: bytes, says: str, spec: StageSpec = SPEC) -> Animal:
    """A module that is refused as such."""
    return Animal(module, False, PluginInvalid, f"plugin 'bad'{says}", spec)


def no_room(module: bytes, says: str, *, loads: bool) -> Animal:
    """A guest that wants more memory than it may have."""
    data = {"trap": "out_of_memory", "limit": 4 << 20}
    return Animal(module, loads, PluginOutOfMemory, f"plugin 'bad' {says}", data=data)


def misplaced(extra: str, code: str) -> Animal:
    """A module with a segment that does not fit."""
    says, data = f"plugin 'bad' trapped: {code.replace('_', ' ')}", {"trap": code, "function": "instantiate"}
    return Animal(guest(extra=extra), False, PluginTrapped, says, data=data)


def traps(body: str, code: str, where: str = "run", **rest: Any) -> Animal:
    """A stage function that traps."""
    spec = rest.pop("spec", SPEC)
    says = rf"plugin 'bad' trapped: {code.replace('_', ' ')} in {where}"
    return Animal(guest(body, **rest), True, PluginTrapped, says, spec, data={"trap": code, "function": "run"})


def endless(module: bytes, function: str, spec: StageSpec = SPEC, *, loads: bool = True) -> Animal:
    """A guest that runs until it is stopped."""
    says = r"plugin 'bad' (used up its 50 ms of CPU time|did not end within 500 ms, with \d+ ms of CPU time) in ..."
    return Animal(module, loads, PluginTimeout, says, spec, data={"trap": "interrupt", "function": function})


def nonsense(body: str, says: str, spec: StageSpec = SPEC, **rest: Any) -> Animal:
    """A guest that answers with something that is no answer."""
    return Animal(guest(body, **rest), True, PluginBadOutput, f"plugin 'bad'{says}", spec)


def broken(change: str, says: str, spec: StageSpec = SPEC) -> Animal:
    """A guest that spoils a right answer, FP32 [3] lying where the input lies."""
    return nonsense(ALIAS + change + DONE, f", output 'y': {says}", spec)


def gives(*tensors: TensorSpec) -> StageSpec:
    """A stage with these outputs."""
    return stage_spec(outputs=tensors, time_ms=50)


def shaped(dtype: str, *shape: int | str) -> StageSpec:
    """A stage whose output `y` is of this type and shape."""
    return gives(tensor_spec("y", dtype, *shape))


def func(name: str, kind: str, body: str = "") -> str:
    """An exported function."""
    return f'(func (export "{name}") {kind} {body})'


def imported(namespace: str, name: str, kind: str = "(func)") -> str:
    """A module that imports this."""
    return guest(imports=f'(import "{namespace}" "{name}" {kind})')


def alloc(body: str) -> str:
    """An allocator with this body."""
    return func("sandseal_alloc", "(param i32 i32) (result i32)", body)


def bare(*parts: str) -> bytes:
    """A module of these parts and the usual ones, without a memory."""
    return wasm(f"(module {' '.join(parts)} {ABI} {ALLOC} {HELPERS} {STAGE})")


STAGE = func("run", "(param $call i32) (result i32)", ECHO)
LOOP = "(loop $l (br $l))"
NEED = r"; ABI v1 needs it as "
DEEP = "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))"
TABLE = f"(table 2 funcref) (elem (i32.const 1) $deep) {DEEP}"
ALL = stage_spec(time_ms=50, imports=("log", "random", "asset"))
IMPORTS = """
(import "sandseal" "log" (func $log (param i32 i32 i32)))
(import "sandseal" "random" (func $random (param i32 i32)))
(import "sandseal" "asset" (func $asset (param i32 i32 i32 i32) (result i64)))
(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
"""
ESCAPE = "\\1b[2J"  # as WAT writes it: clears a terminal
DATA, DTYPE, RANK, FLAGS, BYTE_LEN, AXIS_0, AXIS_1, AXIS_2 = 8, 0, 4, 12, 16, 24, 32, 40  # in a descriptor


def memory(pages: str) -> str:
    """An exported memory."""
    return f'(memory (export "memory") {pages})'


def calls(name: str, *arguments: int) -> str:
    """A call of a function with these i32."""
    return f"(call ${name} {' '.join(f'(i32.const {a})' for a in arguments)})"


def out(field: int, value: int, index: int = 0) -> str:
    """Sets a field of an output's descriptor."""
    kind = "i64" if field >= BYTE_LEN else "i32"
    at = f"(call $out (local.get $call) (i32.const {index}))"
    return f"({kind}.store offset={field} {at} ({kind}.const {value}))"


def describe(data: int, size: int, axis: int, index: int = 0) -> str:
    """Sets where an output lies, its bytes and its first axis."""
    return out(DATA, data, index) + out(BYTE_LEN, size, index) + out(AXIS_0, axis, index)


def error(at: int, size: int) -> str:
    """Sets where the error text lies, and refuses."""
    fields = f"(i32.store offset=32 (local.get $call) (i32.const {at}))"
    return f"{fields} (i32.store offset=36 (local.get $call) (i32.const {size})) (i32.const 1)"
