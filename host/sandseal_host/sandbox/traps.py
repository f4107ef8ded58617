"""What wasmtime says when guest code ends badly, as our errors: the one place where its traps are translated."""

import ctypes
import re
from collections.abc import Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any

from wasmtime import Trap, TrapCode, WasmtimeError
from wasmtime import _ffi as ffi

from sandseal_host.errors import PluginOutOfMemory, PluginTimeout, PluginTrapped
from sandseal_host.sandbox.printable import printable

_MAX_FRAMES, _MAX_NAME = 16, 200
# A frame of a message: its number, and its lines up to the next one.
_FRAME = re.compile(r"^ +(\d+): (.*\n(?:(?! +\d+: ).*\n)*)", re.MULTILINE)
_UNKNOWN_OFFSET = 2**64 - 1

# Trap codes that are more than "the guest's own fault"; every other one is a plain PluginTrapped.
_ERRORS: Mapping[str, type[PluginTrapped]] = {
    TrapCode.INTERRUPT.name: PluginTimeout,
    TrapCode.OUT_OF_FUEL.name: PluginTimeout,
    TrapCode.ALLOCATION_TOO_LARGE.name: PluginOutOfMemory,
}


@dataclass(frozen=True, slots=True)
class GuestTrap:
    """Why and where guest code ended.

    Args:
        code: wasmtime's trap code in lower case (`unreachable`, `memory_out_of_bounds`, `stack_overflow`, ...).
        frames: innermost first; `function`, `offset` in the module, and `at` (`file:line:column`, of inlined functions
            one after another) where the module has DWARF and WASMTIME_BACKTRACE_DETAILS=1 was set before the engine was
            made.
    """

    code: str
    frames: Sequence[Mapping[str, Any]]

    def error(self, label: str, function: str, why: str = "") -> PluginTrapped:
        """The error that the caller gets; `why` replaces "trapped" where the host knows better."""
        kind = _ERRORS.get(self.code.upper(), PluginTrapped)
        where = f" in {self.frames[0]['function']}" if self.frames else ""
        return kind(
            f"plugin {label!r} {why or 'trapped: ' + self.code.replace('_', ' ')}{where}",
            plugin=label, function=function, trap=self.code, frames=list(self.frames),
        )  # fmt: skip


def take_trap(address: int) -> GuestTrap:
    """Read a trap that a guest call returned, and free it."""
    pointer = ctypes.cast(address, ctypes.POINTER(ffi.wasm_trap_t))
    with Trap._from_ptr(pointer) as trap:
        vector = ffi.wasm_frame_vec_t(0, None)
        ffi.wasm_trap_trace(pointer, byref(vector))
        return GuestTrap(_code(pointer), _take_frames(vector, trap.message))


def take_error(address: int) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Read an error that a wasmtime call returned, and free it: its message and the guest's frames."""
    pointer = ctypes.cast(address, ctypes.POINTER(ffi.wasmtime_error_t))
    with WasmtimeError._from_ptr(pointer) as error:
        vector = ffi.wasm_frame_vec_t(0, None)
        ffi.wasmtime_error_wasm_trace(pointer, byref(vector))
        message = str(error)
        return printable(message, 500), _take_frames(vector, message)


def _code(pointer: Any) -> str:
    number = ffi.wasmtime_trap_code_t()
    if not ffi.wasmtime_trap_code(pointer, byref(number)):
        return "host_function"
    return next((code.name for code in TrapCode if code.value == number.value), "unknown").lower()


def _take_frames(vector: Any, message: str) -> Sequence[Mapping[str, Any]]:
    """The frames in a vector, which is freed. Only the message has source lines, so they are read from there."""
    trace = message.partition("\nCaused by:")[0] + "\n"  # which is numbered too
    places = {number: re.findall(r"^ +at (.+)$", rest, re.MULTILINE) for number, rest in _FRAME.findall(trace)}
    try:
        return tuple(_frame(vector.data[i], places.get(str(i), ())) for i in range(min(vector.size, _MAX_FRAMES)))
    finally:
        ffi.wasm_frame_vec_delete(byref(vector))


def _frame(pointer: Any, places: Sequence[str]) -> Mapping[str, Any]:
    name, offset = ffi.wasmtime_frame_func_name(pointer), ffi.wasm_frame_module_offset(pointer)
    function = ctypes.string_at(name.contents.data, name.contents.size) if name else b""
    shown = printable(function, _MAX_NAME) or f"function {ffi.wasm_frame_func_index(pointer)}"
    frame: dict[str, Any] = {"function": shown}
    if offset != _UNKNOWN_OFFSET:
        frame["offset"] = offset
    if places:
        frame["at"] = [printable(place[-_MAX_NAME:], _MAX_NAME) for place in places]
    return frame
