"""What `_initialize` leaves behind: run once where nothing outside the guest can be asked, then read.

For builds, which write it into the module (`sandseal_sdk.plugin.preinit`). Nothing here is fast, and nothing depends on
the machine: instructions are counted instead of time.
"""

import re
from collections.abc import Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any

from wasmtime import Func, Global, Instance, Linker, Memory, Module, Store, Table, Trap, TrapCode, WasmtimeError
from wasmtime import _ffi as ffi

from sandseal_host.errors import PluginInvalid, PluginOutOfMemory, PluginTrapped
from sandseal_host.sandbox.config import MAX_TABLE_ELEMENTS, MAX_TABLES, new_engine
from sandseal_host.sandbox.module import read_outline
from sandseal_host.sandbox.printable import printable
from sandseal_host.sandbox.program import INITIALIZE, MEMORY

MAX_FUEL = 20_000_000_000  # instructions: some ten seconds
_UNLIMITED = 1 << 40  # epoch ticks; nothing advances the epoch here
_UNKNOWN_IMPORT = re.compile(r"unknown import: `(\w+)::(\w+)`")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An initialised guest's state.

    Args:
        memory: all of its linear memory.
        globals: exported globals by name: integers, or floats.
        fuel: instructions that it took.
    """

    memory: bytes
    globals: Mapping[str, int | float]
    fuel: int


def take_snapshot(wasm: bytes, memory_limit: int, label: str) -> Snapshot:
    """Instantiate a module, run its `_initialize`, and read its memory and its exported globals.

    Args:
        wasm: exports `memory`, `_initialize`, and every table that must not change; its imports trap.
        memory_limit: bytes.
        label: names the plugin in errors.

    Raises:
        PluginInvalid: it does not compile or instantiate, or `_initialize` changes a table or is no such function.
        PluginTrapped: `_initialize` calls an import, runs too long, or traps.
        PluginOutOfMemory: it starts with more memory than the limit.
    """
    outline = read_outline(wasm, label)
    if outline.exports.get(INITIALIZE) != "() -> ()":
        raise PluginInvalid(f"plugin {label!r}: {INITIALIZE} must take and return nothing", plugin=label)
    engine = new_engine(pooling=False, fuel=True)
    with Store(engine) as store:
        store.set_limits(memory_limit, MAX_TABLE_ELEMENTS, 1, MAX_TABLES, 1)
        store.set_fuel(MAX_FUEL)
        store.set_epoch_deadline(_UNLIMITED)
        try:
            module, linker = Module(engine, wasm), Linker(engine)
            linker.define_unknown_imports_as_traps(module)
            return _initialised(store, linker.instantiate(store, module), label)
        except Trap as trap:
            raise _trapped(trap, label) from None
        except WasmtimeError as error:
            if asked := _UNKNOWN_IMPORT.search(str(error)):
                raise _failed(f"calls {asked[1]}.{asked[2]}, which only a call can", "host_function", label) from None
            why = printable(" ".join(str(error).split()), 500)
            kind = PluginOutOfMemory if "exceeds memory limits" in why else PluginInvalid
            raise kind(f"plugin {label!r} cannot be initialised: {why}", plugin=label) from None


def _initialised(store: Store, instance: Instance, label: str) -> Snapshot:
    exports = dict(instance.exports(store))
    initialize, memory = exports[INITIALIZE], exports[MEMORY]
    if not (isinstance(initialize, Func) and isinstance(memory, Memory)):
        raise PluginInvalid(f"plugin {label!r}: {MEMORY} must be a memory", plugin=label)
    tables = [item for item in exports.values() if isinstance(item, Table)]
    before = [_elements(store, table) for table in tables]
    initialize(store)
    if before != [_elements(store, table) for table in tables]:
        raise PluginInvalid(f"plugin {label!r}: {INITIALIZE} changes a table of functions", plugin=label)
    values = {name: item.value(store) for name, item in exports.items() if isinstance(item, Global)}
    return Snapshot(bytes(memory.read(store)), values, MAX_FUEL - store.get_fuel())


def _elements(store: Store, table: Table) -> list[Any]:
    """Which function stands where, as addresses that are equal for the same function."""
    found = []
    for index in range(table.size(store)):
        element = ffi.wasmtime_val_t()
        ffi.wasmtime_table_get(store._context(), byref(table._table), index, byref(element))
        found.append(getattr(element.of.funcref, "__private"))  # no name mangling wanted
    return found


def _trapped(trap: Trap, label: str) -> PluginTrapped:
    code = trap.trap_code.name.lower() if trap.trap_code else "unknown"
    if trap.trap_code is TrapCode.OUT_OF_FUEL:
        return _failed(f"runs more than {MAX_FUEL:,} instructions", code, label)
    frames = [{"function": printable((frame.func_name or "").encode(), 200)} for frame in trap.frames]
    return _failed(f"traps: {code.replace('_', ' ')} in {frames[0]['function']}", code, label, frames)


def _failed(why: str, code: str, label: str, frames: Sequence[Mapping[str, str]] = ()) -> PluginTrapped:
    message = f"plugin {label!r}: {INITIALIZE} {why}"
    return PluginTrapped(message, plugin=label, function=INITIALIZE, trap=code, frames=list(frames))
