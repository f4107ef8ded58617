"""Host memory that rows are gathered into."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandseal_host.runtime.staging import Bytes


def pageable(size: int) -> Bytes:
    """Memory as the system gives it."""
    return np.empty(size, np.uint8)


class InputBuffer:
    """Host memory that one input's rows are gathered into; grows by powers of two of rows, and is reused.

    Args:
        dtype: of the input.
        allocate: gives the memory.
    """

    __slots__ = ("_allocate", "_memory", "_pointer", "_rows", "copied", "dtype")

    def __init__(self, dtype: np.dtype[Any], allocate: Callable[[int], Bytes] = pageable) -> None:
        self.dtype = dtype
        self.copied = 0  # bytes so far
        self._allocate = allocate
        self.release()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._memory.nbytes

    def place(self, parts: list[NDArray[Any]], rows: int) -> tuple[int, tuple[int, ...]]:
        """Where the parts lie one after the other; copied, unless there is one that can be read where it lies.

        Args:
            parts: arrays of equal shapes behind axis 0.
            rows: of all of them.

        Returns:
            Pointer and shape of the batch; good until the next call and while the parts are.
        """
        first = parts[0]
        flags = first.flags
        if len(parts) == 1 and flags.aligned and flags.c_contiguous and first.dtype == self.dtype:
            return first.ctypes.data, first.shape
        _, shape = self.gather(parts, rows)
        return self._pointer, shape

    def gather(self, parts: list[NDArray[Any]], rows: int) -> tuple[Bytes, tuple[int, ...]]:
        """Copy the parts one after the other.

        Returns:
            Their bytes, which lie here until the next call, and the shape of the batch.
        """
        shape = parts[0].shape
        if len(parts) == 1:
            parts, rows = [parts[0].reshape(-1)], parts[0].size  # whatever its axis 0 means
        else:
            shape = (rows, *shape[1:])
        tail = parts[0].shape[1:]
        if len(self._rows) < rows or self._rows.shape[1:] != tail:
            self._shape(rows, tail)
        batch = np.concatenate(parts, 0, self._rows[:rows])
        self.copied += batch.nbytes
        return self._memory[: batch.nbytes], shape

    def release(self) -> None:
        """Give the memory back; the next batch gets new."""
        self._use(self._allocate(0))
        self._rows: NDArray[Any] = self._memory.view(self.dtype)

    def _shape(self, rows: int, tail: tuple[int, ...]) -> None:
        capacity = 1 << (rows - 1).bit_length()
        size = capacity * prod(tail) * self.dtype.itemsize
        if size > self._memory.nbytes:
            self._use(self._allocate(size))
        self._rows = self._memory[:size].view(self.dtype).reshape(capacity, *tail)

    def _use(self, memory: Bytes) -> None:
        self._memory = memory
        self._pointer = memory.ctypes.data
