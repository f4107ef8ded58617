"""How tensors come to a device with memory of its own, and back: what `cuda.py` offers and `StagedBinding` uses.

A stream for each run in flight and one to compute on, so that the next batch's rows go in and the last one's come
out while the device computes.
"""

from collections.abc import Iterator
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sandseal_host.runtime.gate import Gate

Bytes = NDArray[np.uint8]


class Event(Protocol):
    """A point on a stream."""

    def wait(self) -> None:
        """Block until all before it is done; others run meanwhile."""
        ...


class Stream(Protocol):
    """Work that a device does one after another; no method waits for it."""

    @property
    def pointer(self) -> int:
        """The stream as the device's driver knows it."""
        ...

    def upload(self, target: int, source: Bytes) -> None:
        """Copy host memory, which must stay as it is until this is done, to an address on the device."""
        ...

    def download(self, target: Bytes, source: int) -> None:
        """Copy from an address on the device, as much as the target holds."""
        ...

    def move(self, target: int, source: int, size: int) -> None:
        """Copy from one address on the device to another."""
        ...

    def record(self) -> Event:
        """The point behind all that was begun so far."""
        ...

    def follow(self, event: Event) -> None:
        """Do what is begun from now on after that point of another stream."""
        ...


class DeviceBuffer(Protocol):
    """Memory on the device; it is there as long as this object."""

    @property
    def pointer(self) -> int:
        """Its address."""
        ...

    @property
    def nbytes(self) -> int:
        """Its size."""
        ...


class Staging(Protocol):
    """One session's streams on a device, and the memory on both sides."""

    compute: Stream
    """The one on which the session's runs are computed: ONNX Runtime has one such stream a session."""

    launching: Lock
    """Held by who puts a run on it."""

    gate: Gate
    """The device's: shared by all that uses it, passed alone by who records a graph."""

    graph_ids: Iterator[int]
    """Numbers for the session's graphs."""

    @property
    def ort_device(self) -> Any:
        """Where the memory is, for ONNX Runtime."""
        ...

    def stream(self) -> Stream:
        """Another one."""
        ...

    def enter(self) -> None:
        """Let the calling thread use the device."""
        ...

    def host(self, size: int) -> Bytes:
        """Pinned host memory, which copies go through at full speed; nobody else has it while a view of it lives."""
        ...

    def memory(self, size: int) -> DeviceBuffer:
        """Memory on the device, filled with zeros."""
        ...
