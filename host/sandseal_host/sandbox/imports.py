"""Everything that a guest can reach outside its own memory: four functions of ours and a small WASI shim.

Host functions never raise into wasmtime: they return, or end the guest with a trap, and leave the reason on the
guest that called them.
"""

import os
import time
from collections.abc import Callable, Mapping
from ctypes import c_int64, c_uint32, sizeof
from dataclasses import dataclass
from typing import Any

from wasmtime import FuncType, Linker, TrapCode, ValType, WasmtimeError
from wasmtime import _ffi as ffi

from sandseal_host.errors import PluginInvalid
from sandseal_host.sandbox import raw
from sandseal_host.sandbox.guest import Guest, GuestFault, here
from sandseal_host.sandbox.log import MAX_LINE
from sandseal_host.sandbox.memory import OutOfBounds
from sandseal_host.sandbox.module import ModuleOutline
from sandseal_host.sandbox.printable import printable
from sandseal_host.sandbox.traps import take_error
from sandseal_signing.stage import StageSpec

OURS, WASI = "sandseal", "wasi_snapshot_preview1"
MAX_RANDOM = 65_536  # bytes of one call, which nothing can interrupt
_MAX_ASSET_NAME = 255
_MAX_IOVECS = 1024
_EBADF, _EINVAL = 8, 28  # WASI errno


def _log(guest: Guest, level: int, at: int, length: int) -> None:
    memory = guest.memory()
    if not memory.holds(at, length):
        raise OutOfBounds(at, length)
    if guest.log:
        guest.log.write(level, memory.read(at, min(length, MAX_LINE + 1)))


def _now(guest: Guest) -> int:
    return time.time_ns() // 1_000_000


def _random(guest: Guest, at: int, length: int) -> None:
    if length > MAX_RANDOM:
        raise GuestFault("host_function", f"asked random for {length} bytes, over {MAX_RANDOM}")
    guest.memory().write(at, os.urandom(length))


def _asset(guest: Guest, name: int, name_len: int, target: int, capacity: int) -> int:
    memory = guest.memory()
    data = None
    if name_len <= _MAX_ASSET_NAME:
        data = guest.assets.get(memory.read(name, name_len).decode("utf-8", "replace"))
    if data is None:
        return -1
    memory.write(target, data if len(data) <= capacity else data[:capacity])
    return len(data)


def _fd_write(guest: Guest, fd: int, iovecs: int, count: int, written: int) -> int:
    if fd not in (1, 2):
        return _EBADF
    if count > _MAX_IOVECS:
        return _EINVAL
    memory, line, total = guest.memory(), b"", 0
    for i in range(count):
        vector = memory.read(iovecs + 8 * i, 8)
        at, length = int.from_bytes(vector[:4], "little"), int.from_bytes(vector[4:], "little")
        line += memory.read(at, min(length, MAX_LINE + 1 - len(line)))
        total += length
    if guest.log and line.strip():
        guest.log.write(1 if fd == 1 else 2, line.rstrip(b"\n"))
    memory.write(written, (total & 0xFFFFFFFF).to_bytes(4, "little"))
    return 0


def _proc_exit(guest: Guest, code: int) -> None:
    raise GuestFault("proc_exit", f"called proc_exit({code})")


def _no_strings(guest: Guest, count: int, size: int) -> int:
    memory = guest.memory()
    memory.write(count, bytes(4))
    memory.write(size, bytes(4))
    return 0


def _nothing(guest: Guest, *_: int) -> int:
    return 0


def _bad_descriptor(guest: Guest, *_: int) -> int:
    return _EBADF


@dataclass(frozen=True, slots=True)
class HostFunction:
    """One importable function.

    Args:
        parameters: wasm types, as in `i32 i64`.
        results: none or one.
        callback: what wasmtime calls; kept alive here.
    """

    parameters: str
    results: str
    callback: Any

    @classmethod
    def of(cls, body: Callable[..., int | None], parameters: str, results: str = "") -> "HostFunction":
        """Wrap `body(guest, *arguments)`; i32 arguments arrive unsigned, as the addresses that most of them are."""
        return cls(parameters, results, _callback(body, parameters.split(), bool(results)))

    @property
    def signature(self) -> str:
        """Its type as `ModuleOutline` writes it."""
        return f"({self.parameters}) -> ({self.results})"

    def type(self) -> FuncType:
        """Its type as wasmtime wants it."""
        return FuncType(*[[_VALUES[name]() for name in side.split()] for side in (self.parameters, self.results)])


_SLOT = sizeof(ffi.wasmtime_val_raw_t)
_READ: Mapping[str, Any] = {"i32": c_uint32, "i64": c_int64}
_VALUES: Mapping[str, Callable[[], ValType]] = {"i32": ValType.i32, "i64": ValType.i64}
_ENDED = b"ended by the host"


def _callback(body: Callable[..., int | None], takes: list[str], gives: bool) -> Any:
    readers = [(_READ[kind], _SLOT * i) for i, kind in enumerate(takes)]

    def call(_env: int, _caller: int, slots: int, _count: int) -> int:
        guest = here.guest
        try:
            result = body(guest, *[kind.from_address(slots + at).value for kind, at in readers])
            if gives and result is not None:
                c_int64.from_address(slots).value = result
        except OutOfBounds:
            return raw.trap_with_code(TrapCode.MEMORY_OUT_OF_BOUNDS.value)
        except BaseException as failure:
            if guest:
                guest.failure = failure
            return raw.trap_with_text(_ENDED, len(_ENDED))
        return 0

    return raw.HostCallback(call)


# The whole surface: what a module may import, and nothing else.
FUNCTIONS: Mapping[tuple[str, str], HostFunction] = {
    (OURS, "log"): HostFunction.of(_log, "i32 i32 i32"),
    (OURS, "now"): HostFunction.of(_now, "", "i64"),
    (OURS, "random"): HostFunction.of(_random, "i32 i32"),
    (OURS, "asset"): HostFunction.of(_asset, "i32 i32 i32 i32", "i64"),
    (WASI, "fd_write"): HostFunction.of(_fd_write, "i32 i32 i32 i32", "i32"),
    (WASI, "proc_exit"): HostFunction.of(_proc_exit, "i32"),
    (WASI, "environ_sizes_get"): HostFunction.of(_no_strings, "i32 i32", "i32"),
    (WASI, "environ_get"): HostFunction.of(_nothing, "i32 i32", "i32"),
    (WASI, "args_sizes_get"): HostFunction.of(_no_strings, "i32 i32", "i32"),
    (WASI, "args_get"): HostFunction.of(_nothing, "i32 i32", "i32"),
    (WASI, "fd_close"): HostFunction.of(_bad_descriptor, "i32", "i32"),
    (WASI, "fd_seek"): HostFunction.of(_bad_descriptor, "i32 i64 i32 i32", "i32"),
    (WASI, "fd_fdstat_get"): HostFunction.of(_bad_descriptor, "i32 i32", "i32"),
}


def define_imports(linker: Linker, outline: ModuleOutline, spec: StageSpec, label: str) -> None:
    """Give a module exactly the functions that it imports, if its stage asks for them.

    Raises:
        PluginInvalid: it imports something that does not exist here, with another type, or without a grant.
    """
    for (namespace, name), kind in outline.imports.items():
        function = FUNCTIONS.get((namespace, name))
        if function is None:
            why, hint = ", which this host does not offer", "abi-v1.md lists what a plugin may import"
        elif kind != function.signature:
            why, hint = f" as {kind}; it is {function.signature}", "declare the import as abi-v1.md does"
        elif namespace == OURS and name not in spec.imports:
            why, hint = ", which its stage does not ask for", f'add "{name}" to the stage\'s "imports"'
        else:
            _define(linker, namespace, name, function)
            continue
        shown = printable(f"{namespace}.{name}", 200)
        raise PluginInvalid(f"plugin {label!r} imports {shown}{why}", hint=hint, plugin=label, name=shown)


def _define(linker: Linker, namespace: str, name: str, function: HostFunction) -> None:
    kind = function.type()
    error = raw.define_function(
        raw.address(linker.ptr()), namespace.encode(), len(namespace), name.encode(), len(name),
        raw.address(kind.ptr()), raw.address(function.callback), None, None,
    )  # fmt: skip
    if error:
        raise WasmtimeError(take_error(error)[0])
