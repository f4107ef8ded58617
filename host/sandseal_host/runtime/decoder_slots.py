"""Memory for the keys and values of several sequences: slot after slot, so that neighbours are one batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sandseal_host.runtime.decoder_signature import DecoderSignature
from sandseal_host.runtime.staging import Staging


@dataclass(frozen=True, slots=True, eq=False)
class Kv:
    """A copy of one sequence's keys and values in the host's memory.

    Args:
        data: [buffers, kv_heads, length, head]; a layer's keys, then its values.
    """

    data: NDArray[Any]

    @property
    def length(self) -> int:
        """Positions."""
        return int(self.data.shape[2])

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.data.nbytes

    def first(self, length: int) -> "Kv":
        """A view of the first positions."""
        return Kv(self.data[:, :, :length])


class Slots(Protocol):
    """Buffers [slots, kv_heads, context, head], two a layer."""

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        ...

    def pointer(self, buffer: int, slot: int) -> int:
        """Where a slot begins in a buffer; all following slots lie behind it."""
        ...

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first positions of a slot into another."""
        ...

    def save(self, slot: int, length: int) -> Kv:
        """A copy of the first positions of a slot."""
        ...

    def restore(self, slot: int, kv: Kv) -> None:
        """Copy them back into any slot."""
        ...


def make_slots(signature: DecoderSignature, slots: int, context: int, staging: Staging | None) -> Slots:
    """Slots on the device that `staging` is of; in the host's memory where there is none."""
    shape = (2 * signature.layers, slots, signature.kv_heads, context, signature.head)
    if staging is None:
        return HostSlots(shape, signature.dtype)
    return StagedSlots(shape, signature.dtype, staging)


class HostSlots:
    """Slots in the host's memory; the system gives a page when it is first written to."""

    def __init__(self, shape: tuple[int, int, int, int, int], dtype: np.dtype[Any]) -> None:
        self._data = np.zeros(shape, dtype)
        self._strides, self._pointer = self._data.strides, self._data.ctypes.data
        self.nbytes = self._data.nbytes

    def pointer(self, buffer: int, slot: int) -> int:
        """See `Slots.pointer`."""
        return self._pointer + buffer * self._strides[0] + slot * self._strides[1]

    def move(self, source: int, target: int, length: int) -> None:
        """See `Slots.move`."""
        self._data[:, target, :, :length] = self._data[:, source, :, :length]

    def save(self, slot: int, length: int) -> Kv:
        """See `Slots.save`."""
        return Kv(self._data[:, slot, :, :length].copy())

    def restore(self, slot: int, kv: Kv) -> None:
        """See `Slots.restore`."""
        self._data[:, slot, :, : kv.length] = kv.data


class StagedSlots:
    """Slots on a device with memory of its own; each method returns when its copies are done."""

    def __init__(self, shape: tuple[int, int, int, int, int], dtype: np.dtype[Any], staging: Staging) -> None:
        self._buffers, self._slots, self._heads, context, head = shape
        self._dtype, self._head, self._staging = dtype, head, staging
        self._row = head * dtype.itemsize  # bytes of a head's position
        self._segment = context * self._row
        self._slot = self._heads * self._segment
        self.nbytes = self._buffers * self._slots * self._slot
        self._memory, self._copies = staging.memory(self.nbytes), staging.stream()

    def pointer(self, buffer: int, slot: int) -> int:
        """See `Slots.pointer`."""
        return self._memory.pointer + (buffer * self._slots + slot) * self._slot

    def move(self, source: int, target: int, length: int) -> None:
        """See `Slots.move`."""
        self._staging.enter()
        size = length * self._row
        for onto, out_of in zip(self._segments(target), self._segments(source), strict=True):
            self._copies.move(onto, out_of, size)
        self._copies.record().wait()

    def save(self, slot: int, length: int) -> Kv:
        """See `Slots.save`."""
        self._staging.enter()
        size = length * self._row
        memory = self._staging.host(self._buffers * self._heads * size)
        for i, pointer in enumerate(self._segments(slot)):
            self._copies.download(memory[i * size : (i + 1) * size], pointer)
        self._copies.record().wait()
        return Kv(memory.view(self._dtype).reshape(self._buffers, self._heads, length, self._head))

    def restore(self, slot: int, kv: Kv) -> None:
        """See `Slots.restore`."""
        self._staging.enter()
        size = kv.length * self._row
        memory = self._staging.host(self._buffers * self._heads * size)
        memory.view(self._dtype).reshape(kv.data.shape)[:] = kv.data
        for i, pointer in enumerate(self._segments(slot)):
            self._copies.upload(pointer, memory[i * size : (i + 1) * size])
        self._copies.record().wait()

    def _segments(self, slot: int) -> Iterator[int]:
        """Where each head of a slot begins in each buffer."""
        for buffer in range(self._buffers):
            begin = self.pointer(buffer, slot)
            yield from range(begin, begin + self._slot, self._segment)
