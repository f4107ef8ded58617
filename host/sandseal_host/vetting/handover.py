"""What passes between the host and the child that vets: an order with the files one way, lines of JSON the other."""

import json
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import IO


class Step(StrEnum):
    """How far vetting has come."""

    START = "start"
    PARSE = "parse"
    SESSION = "session"
    WARM_UP = "warm-up"
    COMPILE = "plugin compile"


@dataclass(frozen=True, slots=True)
class Order:
    """What to look at, and within which limits.

    Args:
        memory: in bytes, without the files themselves.
        cpu_s: seconds of processor time.
        device: where the host runs models.
        threads: that one run of a model uses.
        max_rows: the host's own, where it has one.
        sizes: of the files in bytes, by name, in the order in which they were handed over.
        folder: holds the weights that were not handed over; None where all were.
    """

    memory: int
    cpu_s: int
    device: str
    threads: int
    max_rows: int | None
    sizes: Mapping[str, int]
    folder: str | None = None


@contextmanager
def handed_over(order: Order, files: Mapping[str, bytes]) -> Iterator[IO[bytes]]:
    """An order and its files in a file that has no name, so that nobody else can change them.

    On Linux it lies in memory; elsewhere it is a temporary file that is deleted already.

    Args:
        files: by name; those that `order.sizes` lists are taken.
    """
    with _unnamed_file() as file:
        file.write(json.dumps(asdict(order)).encode() + b"\n")
        for name in order.sizes:
            file.write(files[name])
        file.seek(0)
        yield file


def take_over(file: int) -> tuple[Order, Mapping[str, memoryview]]:
    """Read what was handed over, without copying the files.

    Args:
        file: the descriptor, at any position.
    """
    mapped = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    at = mapped.find(b"\n") + 1
    order = Order(**json.loads(mapped[:at]))
    content, files = memoryview(mapped), {}
    for name, size in order.sizes.items():
        files[name] = content[at : at + size]
        at += size
    return order, files


def _unnamed_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("sandseal-vetting", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()
