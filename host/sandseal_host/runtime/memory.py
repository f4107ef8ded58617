"""The process's memory as the system sees it."""

import ctypes
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Bytes of this process that lie in memory; 0 where the system does not say (only Linux does here)."""
    if not sys.platform.startswith("linux"):
        return 0
    return int(_STATM.read_text("ascii").split()[1]) * _PAGE


def trim() -> None:
    """Hand freed memory back to the system.

    Without it glibc keeps hundreds of MB of an unloaded model's weights (onnxruntime#26831).
    """
    if sys.platform.startswith("linux"):
        release = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if release is not None:
            release(0)


def _page() -> int:
    if not sys.platform.startswith("linux"):
        return 0
    import resource

    return resource.getpagesize()


_PAGE = _page()
