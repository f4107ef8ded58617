"""One wasmtime store with one guest in it: the only place where guest code runs."""

from collections.abc import Mapping
from ctypes import addressof, c_int32, c_uint8, c_uint64, c_void_p, sizeof

from wasmtime import _ffi as ffi

from sandseal_host.errors import ClientGone, PluginInvalid, QueueFull
from sandseal_host.sandbox import raw
from sandseal_host.sandbox.config import MAX_TABLE_ELEMENTS, MAX_TABLES
from sandseal_host.sandbox.deadline import Deadline
from sandseal_host.sandbox.guest import Cancelled, GuestFault, here
from sandseal_host.sandbox.log import GuestLog
from sandseal_host.sandbox.memory import GuestMemory
from sandseal_host.sandbox.program import MEMORY, Program
from sandseal_host.sandbox.statistics import InstanceUsage
from sandseal_host.sandbox.traps import GuestTrap, take_error, take_trap

_INTS_PER_SLOT = sizeof(ffi.wasmtime_val_raw_t) // 4
_MAX_ARGUMENTS = 2
_UNLIMITED = 1 << 40  # ticks
_FUEL = 1 << 62  # instructions, where they are counted: never the limit
_CONTINUE = 0  # WASMTIME_UPDATE_DEADLINE_CONTINUE
_TIME_IS_UP = b"time is up"
_LOOK_TICKS = 25  # epoch ticks between two looks at whether a call's caller has left


def _on_epoch(_context: int, _data: int, ticks: int, kind: int) -> int:
    """Called on the guest's thread when its epoch deadline has passed: extend it, or end the call."""
    guest = here.guest
    try:
        if guest is None:
            return raw.error_new(_TIME_IS_UP)
        guest.deadline.count()
        if guest.cancelled is not None and guest.cancelled():
            raise ClientGone("nobody waits for this call any more")
        left = guest.ticks()
        if left:
            c_uint64.from_address(ticks).value = left
            c_uint8.from_address(kind).value = _CONTINUE
            return 0
        guest.failure = GuestFault("interrupt", guest.deadline.verdict())
    except BaseException as failure:
        if guest:
            guest.failure = failure
    return raw.error_new(_TIME_IS_UP)


_EPOCH_CALLBACK = raw.EpochCallback(_on_epoch)  # kept alive here
_ON_EPOCH = raw.address(_EPOCH_CALLBACK)


class GuestStore:
    """A fresh guest and what it may use; belongs to one thread at a time. Implements `Guest` for host callbacks.

    Args:
        program: what to instantiate. No guest code runs yet.
        cancelled: says that nobody waits for the call any more; asked every 50 ms, on the guest's thread.

    Raises:
        QueueFull: as many instances are alive as the engine has room for.
        PluginInvalid: it cannot be instantiated within its limits.
        PluginTrapped: a data or element segment does not fit.
    """

    def __init__(self, program: Program, cancelled: Cancelled | None = None) -> None:
        self._store: int | None = None
        self.cancelled = cancelled
        self._program = program
        self.log: GuestLog | None = program.log if "log" in program.spec.imports else None
        self.assets: Mapping[str, bytes] = program.assets
        self.deadline = Deadline(program.spec.limits.time_ms)
        self.failure: BaseException | None = None
        self.ended = False
        self._slots = (c_int32 * (_MAX_ARGUMENTS * _INTS_PER_SLOT))()
        self._trap = c_void_p()
        self._instance = ffi.wasmtime_instance_t()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        program = self._program
        store = raw.store_new(program.engine_at, None, None)
        self._store = store
        self._context = raw.store_context(store)
        raw.store_limits(store, program.memory_limit, MAX_TABLE_ELEMENTS, 1, MAX_TABLES, 1)
        raw.store_on_epoch(store, _ON_EPOCH, None, None)
        if program.fuel:
            raw.set_fuel(self._context, _FUEL)
        # Segments that wasmtime cannot map are copied by code with an epoch check; their size bounds its time.
        raw.set_deadline(self._context, _UNLIMITED)
        instance, trap = addressof(self._instance), addressof(self._trap)
        error = raw.instantiate(program.linked_at, self._context, instance, trap)
        if error:
            raise self._cannot_open(take_error(error)[0])
        if self._trap.value:
            raise self._failed("instantiate", None)
        self._memory = self._export(MEMORY)

    def _cannot_open(self, why: str) -> Exception:
        label = self._program.label
        if "concurrent" in why:
            return QueueFull("every sandbox instance of this host is in use", plugin=label)
        return PluginInvalid(f"plugin {label!r} cannot be instantiated: {why}", plugin=label)

    def _export(self, name: str) -> raw.Extern:
        extern, encoded = raw.Extern(), name.encode()
        instance = addressof(self._instance)
        raw.export_get(self._context, instance, encoded, len(encoded), addressof(extern))
        return extern

    def memory(self) -> GuestMemory:
        """Its linear memory as it is now."""
        at = raw.address_of(self._memory)
        return GuestMemory(raw.memory_data(self._context, at) or 0, raw.memory_size(self._context, at))

    def usage(self) -> InstanceUsage:
        """What it has used so far."""
        left = c_uint64(_FUEL)
        if self._program.fuel:
            raw.get_fuel(self._context, addressof(left))
        return InstanceUsage(_FUEL - left.value, self.memory().size, self.deadline.cpu_s)

    def begin(self) -> None:
        """Start a call's clock; `end` must follow.

        Raises:
            NotReady: the engine is closed.
        """
        self._program.ticker.begin()
        self.deadline.enter()
        raw.set_deadline(self._context, self.ticks())

    def ticks(self) -> int:
        """Epoch ticks until the next look at the clock or the caller is due; 0 when the time is up."""
        left = self.deadline.ticks()
        return left if self.cancelled is None else min(left, _LOOK_TICKS)

    def end(self) -> None:
        """Stop the call's clock."""
        self.deadline.count()
        self._program.ticker.end()

    def run(self, name: str, *arguments: int) -> int:
        """Run an exported function that takes `arguments`; that it exists with this signature was checked at load.

        Raises:
            PluginTrapped: it trapped or ran too long; the guest must be dropped.
        """
        function, slots, trap = self._export(name), self._slots, addressof(self._trap)
        for i, argument in enumerate(arguments):
            slots[i * _INTS_PER_SLOT] = argument
        here.guest = self
        try:
            error = raw.call_guest(self._context, raw.address_of(function), addressof(slots), _MAX_ARGUMENTS, trap)
        finally:
            here.guest = None
        if error or self._trap.value:
            raise self._failed(name, error)
        return slots[0]

    def _failed(self, function: str, error: int | None) -> BaseException:
        """The error for a guest that just ended badly."""
        self.ended = True
        failure, self.failure = self.failure, None
        if error:
            why, frames = take_error(error)
            trap = GuestTrap("unknown", frames)
        else:
            why, trap = "", take_trap(self._trap.value or 0)
            self._trap.value = None
        if isinstance(failure, GuestFault):
            why, trap = str(failure), GuestTrap(failure.trap, trap.frames)
        elif failure is not None:
            return failure
        return trap.error(self._program.label, function, why)

    def close(self) -> None:
        """Drop the guest and its memory."""
        store, self._store = self._store, None
        if store:
            raw.store_delete(store)

    def __del__(self) -> None:
        self.close()
