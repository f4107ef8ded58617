"""The memory of the process and of the machine as the system sees them."""

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A device's memory at one moment, in bytes.

    Args:
        total: what there is.
        free: what nobody holds, or what could be had without taking it from anybody.
    """

    total: int
    free: int


def resident_bytes() -> int:
    """Bytes of this process that lie in memory; 0 where the system does not say (only Linux does here)."""
    if not sys.platform.startswith("linux"):
        return 0
    return int((_PROC / "self" / "statm").read_text("ascii").split()[1]) * _PAGE


def system_memory(proc: Path = _PROC, cgroup: Path = _CGROUP) -> DeviceMemory:
    """The machine's memory, or what the process's control group may have of it where that is less.

    Args:
        proc, cgroup: where Linux shows them; elsewhere only the total is known, and taken to be free.
    """
    if not sys.platform.startswith("linux"):
        total = _physical()
        return DeviceMemory(total, total)
    known = _table(proc / "meminfo")
    total, free = known["MemTotal:"] << 10, known["MemAvailable:"] << 10
    try:
        limit = int((cgroup / "memory.max").read_text("ascii"))
        held = int((cgroup / "memory.current").read_text("ascii"))
        held -= _table(cgroup / "memory.stat")["inactive_file"]  # the page cache, which gives way
    except (OSError, ValueError, KeyError):  # no second version of control groups here, or no limit ("max")
        return DeviceMemory(total, free)
    return DeviceMemory(min(limit, total), max(0, min(limit - held, free)))


def spare_memory(watermark: float) -> int:
    """Bytes that the process may have until so much of the machine's memory, or of its share of it, is in use."""
    memory = system_memory()
    return memory.free - int((1 - watermark) * memory.total)


def trim() -> None:
    """Hand freed memory back to the system.

    Without it glibc keeps hundreds of MB of an unloaded model's weights (onnxruntime#26831).
    """
    if sys.platform.startswith("linux"):
        release = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if release is not None:
            release(0)


def _table(path: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    lines = [line.split() for line in path.read_text("ascii").splitlines()]
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 0


def _page() -> int:
    if not sys.platform.startswith("linux"):
        return 0
    import resource

    return resource.getpagesize()


_PAGE = _page()
