"""wasmtime's C API in the form that a call needs: plain addresses, and a say in who keeps the GIL.

The safe binding gives the GIL away on every call and then queues for it again, some twenty times a request; under a
busy event loop each time costs up to a switch interval. Here whatever runs no guest code and ends within
microseconds keeps it (`PyDLL`). Only `call_guest` gives it away (`CDLL`): a guest loop that held the GIL would also
hold up the ticker that should stop it.

Every argument is an address or a number and nothing is checked: signatures are checked when a module is linked
(`module.py`), ownership by `Instance`. Loading and linking happen rarely and stay with the safe binding.
"""

import ctypes
from collections.abc import Callable
from ctypes import addressof, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from typing import Any

from wasmtime import _ffi as ffi

_HELD = ctypes.PyDLL(str(ffi.filename))
_FREE = ctypes.CDLL(str(ffi.filename))
_LONG_COPY = 1 << 20  # bytes; a copy of this size takes some 50 us, worth queueing for the GIL afterwards

Extern = ffi.wasmtime_extern_t
_HANDLE_AT: int = Extern.of.offset


def _bind(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = library[name]
    function.restype, function.argtypes = result, arguments
    return function


store_new: Callable[[int, None, None], int] = _bind(_HELD, "wasmtime_store_new", c_void_p, c_void_p, c_void_p, c_void_p)
store_delete: Callable[[int], None] = _bind(_HELD, "wasmtime_store_delete", None, c_void_p)
store_context: Callable[[int], int] = _bind(_HELD, "wasmtime_store_context", c_void_p, c_void_p)
# store, then the most bytes of memory, table elements, instances, tables, memories
store_limits: Callable[[int, int, int, int, int, int], None] = _bind(
    _HELD, "wasmtime_store_limiter", None, c_void_p, *[c_int64] * 5
)
# store, callback, data, finalizer
store_on_epoch: Callable[[int, int, None, None], None] = _bind(
    _HELD, "wasmtime_store_epoch_deadline_callback", None, c_void_p, c_void_p, c_void_p, c_void_p
)
set_deadline: Callable[[int, int], None] = _bind(_HELD, "wasmtime_context_set_epoch_deadline", None, c_void_p, c_uint64)
# context, instructions: an error where the engine counts none, or None
set_fuel: Callable[[int, int], int | None] = _bind(_HELD, "wasmtime_context_set_fuel", c_void_p, c_void_p, c_uint64)
get_fuel: Callable[[int, int], int | None] = _bind(_HELD, "wasmtime_context_get_fuel", c_void_p, c_void_p, c_void_p)
advance_epoch: Callable[[int], None] = _bind(_HELD, "wasmtime_engine_increment_epoch", None, c_void_p)
# instance_pre, context, instance (out), trap (out): an error or None; no start section, so no guest code
instantiate: Callable[[int, int, int, int], int | None] = _bind(
    _HELD, "wasmtime_instance_pre_instantiate", c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
)
export_get: Callable[[int, int, bytes, int, int], bool] = _bind(
    _HELD, "wasmtime_instance_export_get", c_bool, c_void_p, c_void_p, c_char_p, c_size_t, c_void_p
)
memory_data: Callable[[int, int], int] = _bind(_HELD, "wasmtime_memory_data", c_void_p, c_void_p, c_void_p)
memory_size: Callable[[int, int], int] = _bind(_HELD, "wasmtime_memory_data_size", c_size_t, c_void_p, c_void_p)
# context, function, slots (in and out), how many, trap (out): an error or None
call_guest: Callable[[int, int, int, int, int], int | None] = _bind(
    _FREE, "wasmtime_func_call_unchecked", c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p
)
# linker, module, its length, name, its length, type, callback, data, finalizer: an error or None
define_function: Callable[[int, bytes, int, bytes, int, int, int, None, None], int | None] = _bind(
    _HELD, "wasmtime_linker_define_func_unchecked",
    c_void_p, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p, c_void_p, c_void_p, c_void_p,
)  # fmt: skip
trap_with_code: Callable[[int], int] = _bind(_HELD, "wasmtime_trap_new_code", c_void_p, c_uint8)
trap_with_text: Callable[[bytes, int], int] = _bind(_HELD, "wasmtime_trap_new", c_void_p, c_char_p, c_size_t)
error_new: Callable[[bytes], int] = _bind(_HELD, "wasmtime_error_new", c_void_p, c_char_p)

# (env, caller, arguments and results, how many) -> trap or 0
HostCallback = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_void_p, c_size_t)
# (context, data, ticks until the next one (out), what to do then (out)) -> error or 0
EpochCallback = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_void_p, c_void_p)

_MEMMOVE = ctypes.cast(ctypes.memmove, c_void_p).value or 0
_copy_held: Callable[[int, int | bytes, int], int] = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)(_MEMMOVE)
_copy_free: Callable[[int, int | bytes, int], int] = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)(_MEMMOVE)

_MEMSET = ctypes.cast(ctypes.memset, c_void_p).value or 0
# address, byte, how many of them
fill: Callable[[int, int, int], int] = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_int, c_size_t)(_MEMSET)


def copy(target: int, source: int | bytes, size: int) -> None:
    """Copy `size` bytes to an address; only long copies give the GIL away."""
    (_copy_held if size < _LONG_COPY else _copy_free)(target, source, size)


def address(pointer: Any) -> int:
    """The address in a pointer or callback of the safe binding."""
    value: int | None = ctypes.cast(pointer, c_void_p).value
    return value or 0


def address_of(extern: Any) -> int:
    """The address of the function or memory handle inside an exported item."""
    return addressof(extern) + _HANDLE_AT
