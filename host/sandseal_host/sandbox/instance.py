"""A guest that follows ABI v1: instantiated, initialised, called, dropped."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

from sandseal_host.errors import InputRefused, NotReady, PluginBadOutput, PluginTrapped
from sandseal_host.sandbox.abi import ALIGNMENT, Allocate, read_refusal
from sandseal_host.sandbox.guest import Cancelled
from sandseal_host.sandbox.printable import printable
from sandseal_host.sandbox.program import ABI, ALLOC, INITIALIZE, RESET, Program, no_room
from sandseal_host.sandbox.statistics import InstanceUsage
from sandseal_host.sandbox.store import GuestStore
from sandseal_host.tensors import Tensor

MAX_REFUSAL = 4096  # bytes of a refusal's text that the client gets
MAX_STATUS = 255  # also the status of a refusal that ends in a trap


class Instance:
    """A guest that can be called again and again, by one thread at a time; after a trap it is closed.

    Args:
        program: what to instantiate.
        cancelled: see `GuestStore`; what runs then fails with ClientGone.

    Raises:
        NotReady: the engine is closed.
        QueueFull: as many instances are alive as the engine has room for.
        PluginTrapped: `_initialize` trapped or ran too long.
    """

    def __init__(self, program: Program, cancelled: Cancelled | None = None) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._fresh = True
        self._usage: InstanceUsage | None = None
        self._guest: GuestStore | None = GuestStore(program, cancelled)
        if program.initializes:
            self._initialize(self._guest)

    def _initialize(self, guest: GuestStore) -> None:
        guest.begin()
        try:
            guest.run(INITIALIZE)
        except BaseException:
            self.close()
            raise
        finally:
            guest.end()

    def abi(self) -> int:
        """The ABI version that the module says it follows."""
        with self._lock:
            guest = self._begin()
            try:
                return guest.run(ABI)
            finally:
                guest.end()

    def call(
        self, inputs: Sequence[Tensor], parameters: bytes = b"{}", allocate: Allocate = np.empty, *, flags: int = 0
    ) -> tuple[Tensor, ...]:
        """Run the stage.

        Args:
            inputs: in the order of the stage's spec.
            parameters: the request's parameters, UTF-8 JSON.
            allocate: what makes the outputs' arrays.
            flags: of a stream's calls `FIRST` and `LAST` of `abi`.

        Returns:
            The outputs in the order of the spec; nothing of them is the guest's memory.

        Raises:
            RequestInvalid: the inputs are not what the spec says.
            InputRefused: the plugin refuses them; `data["status"]` is its status.
            NotReady: this instance, or the engine, is closed.
            PluginError: it trapped, ran too long, had no room, or returned nonsense.
        """
        with self._lock:
            guest = self._begin()
            try:
                outputs = self._call(guest, inputs, parameters, allocate, flags)
            except BaseException as error:
                self._end(guest, error)
                raise
            self._end(guest, None)
            return outputs

    def usage(self) -> InstanceUsage:
        """What it has used so far, also after a trap closed it.

        Raises:
            NotReady: it was closed, and not by a trap, before anybody asked.
        """
        with self._lock:
            if self._guest:
                self._usage = self._guest.usage()
            if self._usage is None:
                raise NotReady(f"this instance of plugin {self._program.label!r} is closed")
            return self._usage

    def close(self) -> None:
        """Drop the guest and its memory; waits for a running call."""
        with self._lock:
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop(self) -> None:
        guest, self._guest = self._guest, None
        if guest:
            guest.close()

    def _begin(self) -> GuestStore:
        guest = self._guest
        if guest is None:
            raise NotReady(f"this instance of plugin {self._program.label!r} is closed")
        if not self._fresh:  # the first call shares its time with _initialize
            guest.deadline.reset()
        guest.begin()
        return guest

    def _end(self, guest: GuestStore, error: BaseException | None) -> None:
        guest.end()
        clock, memory_bytes = guest.deadline, guest.memory().size
        self._program.tally.add(error, cpu_s=clock.cpu_s, wall_s=clock.wall_s, memory_bytes=memory_bytes)
        if guest.ended:
            self._usage = guest.usage()
            self._drop()

    def _call(
        self, guest: GuestStore, inputs: Sequence[Tensor], parameters: bytes, allocate: Allocate, flags: int
    ) -> tuple[Tensor, ...]:
        form = self._program.form
        layout, free = form.lay_out(inputs, parameters)
        if self._program.resets and not self._fresh:
            guest.run(RESET)
        self._fresh = False
        block = self._allocate(guest, layout.size)
        form.write(guest.memory(), block, layout, flags)
        self._program.tally.copy(inward=sum(tensor.nbytes for tensor in inputs))
        try:
            status = guest.run(form.spec.function, block)
        except PluginTrapped as trap:
            # A guest compiled without unwinding cannot return from where it throws.
            text = self._refusal(guest, block) if trap.data["trap"] == "unreachable" else None
            if not text:
                raise
            raise self._refused(text, MAX_STATUS) from trap
        if status:
            raise self._not_done(guest, block, status)
        outputs = form.read_outputs(guest.memory(), block, free, allocate)
        self._program.tally.copy(outward=sum(tensor.nbytes for tensor in outputs))
        return outputs

    def _allocate(self, guest: GuestStore, size: int) -> int:
        """The guest's address of room for `size` bytes."""
        label, limit = self._program.label, self._program.memory_limit
        block = guest.run(ALLOC, size, ALIGNMENT) & 0xFFFFFFFF if size < limit else 0
        if not block:
            raise no_room(label, size, limit)
        if block % ALIGNMENT or not guest.memory().holds(block, size):
            raise PluginBadOutput(
                f"plugin {label!r}: {ALLOC} returned {block:#x} for {size} bytes, which is not aligned to"
                f" {ALIGNMENT} bytes or not all inside its memory",
                plugin=label, function=ALLOC,
            )  # fmt: skip
        return block

    def _not_done(self, guest: GuestStore, block: int, status: int) -> Exception:
        """The error for a status other than 0."""
        label, function = self._program.label, self._program.spec.function
        if not 1 <= status <= MAX_STATUS:
            why = f"returned status {status}; ABI v1 knows 0 to {MAX_STATUS}"
        elif (text := self._refusal(guest, block)) is None:
            why = f"refused with status {status}, but call.error points outside its memory"
        else:
            return self._refused(text or f"the plugin refused the input with status {status}", status)
        return PluginBadOutput(f"plugin {label!r}: {function} {why}", plugin=label, function=function)

    def _refused(self, text: str, status: int) -> InputRefused:
        return InputRefused(text, plugin=self._program.label, status=status)

    def _refusal(self, guest: GuestStore, block: int) -> str | None:
        """The text in call.error, or None when it lies outside memory."""
        memory = guest.memory()
        at, length = read_refusal(memory, block)
        if not memory.holds(at, length):
            return None
        return printable(memory.read(at, min(length, MAX_REFUSAL + 1)), MAX_REFUSAL)
