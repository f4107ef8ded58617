"""A guest's linear memory as the host sees it between two runs of guest code."""

import ctypes
from typing import NamedTuple

from sandseal_host.sandbox import raw


class GuestMemory(NamedTuple):
    """Where linear memory lies and how large it is; stale as soon as guest code runs again.

    Args:
        base: host address of guest address 0.
        size: bytes.
    """

    base: int
    size: int

    def holds(self, at: int, length: int) -> bool:
        """Whether guest addresses `at` to `at + length` all exist."""
        return min(at, length) >= 0 and at + length <= self.size

    def read(self, at: int, length: int) -> bytes:
        """A copy of `length` bytes at guest address `at`.

        Raises:
            OutOfBounds: they are not all there.
        """
        self._check(at, length)
        return ctypes.string_at(self.base + at, length)

    def write(self, at: int, data: bytes) -> None:
        """Copy `data` to guest address `at`.

        Raises:
            OutOfBounds: there is no room.
        """
        self._check(at, len(data))
        raw.copy(self.base + at, data, len(data))

    def _check(self, at: int, length: int) -> None:
        if not self.holds(at, length):
            raise OutOfBounds(at, length)


class OutOfBounds(Exception):
    """Room-internal: an address range that the guest's memory does not hold."""
