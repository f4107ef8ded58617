"""The memory that the host shares with one worker: one file without a name, cut into slots, one for each call.

It holds the calls that this worker was handed and nothing else. The host clears a slot as soon as it has taken the
answer out. Slots are as large as any call could need; only pages that are written to take memory.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from ctypes import c_char
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sandseal_host.sandbox import raw
from sandseal_host.sandbox.abi import Allocate, address_of_array
from sandseal_host.tensors import Tensor

PAGE = mmap.PAGESIZE
_ALIGNMENT = 64  # bytes, which every data type and vector instruction is content with
_PIECE = 512 << 10  # bytes that are copied at once; some 50 us, or 200 into new pages
_KEPT = 1 << 20  # bytes that are overwritten with zeros, which is cheaper than new pages up to there


class SlotLayout(NamedTuple):
    """Where the parts of a call lie in its slot; host and worker derive it from the same sizes.

    Args:
        inputs_at: of each input's data.
        parameters_at: of the parameters.
        outputs_at: from here to the slot's end there is room for the outputs, each aligned.
    """

    inputs_at: Sequence[int]
    parameters_at: int
    outputs_at: int

    @classmethod
    def of(cls, sizes: Sequence[int], parameters: int) -> "SlotLayout":
        """The layout for inputs of these sizes, and for so many bytes of parameters."""
        *inputs_at, parameters_at = offsets([*sizes, parameters], 0)
        return cls(inputs_at, parameters_at, _up(parameters_at + parameters, PAGE))


def offsets(sizes: Sequence[int], at: int) -> Sequence[int]:
    """Where parts of these sizes lie, one after another."""
    places = []
    for size in sizes:
        places.append(at)
        at = _up(at + size, _ALIGNMENT)
    return places


class Region:
    """The shared memory of one worker, as mapped by either side.

    Args:
        file: a descriptor of a file that is large enough; it is not closed here.
        slots: how many.
        slot_size: bytes of each, a multiple of the page size.
    """

    def __init__(self, file: int, slots: int, slot_size: int) -> None:
        self._map = mmap.mmap(file, PAGE + slots * slot_size)
        self._slot_size = slot_size
        # Views of the map would keep it from being closed; an address does not.
        self._base = ctypes.addressof(c_char.from_buffer(self._map))

    @staticmethod
    def create(slots: int, slot_size: int) -> int:
        """A new file for a region. Its size is final: where one side shortens it, the other dies of its next access.

        A mapping keeps it open, so whoever takes a worker over has it too.
        """
        from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, fcntl

        file = os.memfd_create("sandseal-worker", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, PAGE + slots * slot_size)
        fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
        return file

    def write(self, slot: int, layout: SlotLayout, inputs: Sequence[Tensor], parameters: bytes) -> Iterator[None]:
        """Copy a call's data into its slot, whose room has been checked; a piece from one step to the next."""
        base = self._base + self._start(slot)
        raw.copy(base + layout.parameters_at, parameters, len(parameters))
        for tensor, at in zip(inputs, layout.inputs_at, strict=True):
            data = np.ascontiguousarray(tensor.data)
            yield from _copy(base + at, address_of_array(data), data.nbytes)

    def read(self, slot: int, at: int, target: NDArray[np.uint8]) -> Iterator[None]:
        """Copy what lies in a slot, as much as `target` holds; the caller has checked that so much is inside."""
        yield from _copy(address_of_array(target), self._base + self._start(slot) + at, target.nbytes)

    def clear(self, slot: int, at: int, size: int) -> None:
        """Fill a part of a slot with zeros; `at` is the beginning of a page."""
        start, kept = self._start(slot) + at, min(size, _KEPT)
        raw.fill(self._base + start, 0, kept)
        if size > kept:
            self._map.madvise(mmap.MADV_REMOVE, start + kept, _up(size - kept, PAGE))

    def clear_all(self, slot: int) -> None:
        """Give all of a slot's pages back."""
        self._map.madvise(mmap.MADV_REMOVE, self._start(slot), self._slot_size)

    def array(self, slot: int, at: int, shape: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """What lies in a slot, as it is there."""
        return np.ndarray(shape, dtype, self._map, self._start(slot) + at)

    def text(self, slot: int, at: int, size: int) -> bytes:
        """What lies in a slot, as bytes of its own."""
        start = self._start(slot) + at
        return self._map[start : start + size]

    def room(self, slot: int, at: int) -> Allocate:
        """What makes arrays in a slot, one after another from `at` on."""

        def allocate(shape: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
            nonlocal at
            array = self.array(slot, at, shape, dtype)
            at = _up(at + array.nbytes, _ALIGNMENT)
            return array

        return allocate

    def cancel(self, slot: int, *, cancelled: bool = True) -> None:
        """Say that nobody waits for the call in a slot, or that somebody does."""
        self._map[slot] = cancelled

    def cancelled(self, slot: int) -> bool:
        """Whether nobody waits for it."""
        return self._map[slot] != 0

    def close(self) -> None:
        """Unmap it; no view may be left."""
        self._map.close()

    def _start(self, slot: int) -> int:
        return PAGE + slot * self._slot_size


def _copy(target: int, source: int, size: int) -> Iterator[None]:
    for at in range(0, size, _PIECE):
        raw.copy(target + at, source + at, min(_PIECE, size - at))
        yield


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
