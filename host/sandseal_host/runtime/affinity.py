"""Which processors lie next to a device, and keeping a thread on them."""

import os
import threading
from pathlib import Path


def cores_near(device: Path) -> frozenset[int]:
    """The processors of a PCI device's NUMA node; none where the system does not say, or has but one node.

    Args:
        device: its folder in /sys/bus/pci/devices.
    """
    try:
        if int((device / "numa_node").read_text("ascii")) < 0:
            return frozenset()
        return parse_cores((device / "local_cpulist").read_text("ascii"))
    except (OSError, ValueError):
        return frozenset()


def parse_cores(text: str) -> frozenset[int]:
    """A list of processors as Linux writes it: `0-3,8,10-11`.

    Raises:
        ValueError: it is not one.
    """
    ranges = [part.partition("-") for part in text.strip().split(",") if part]
    return frozenset(core for low, _, high in ranges for core in range(int(low), int(high or low) + 1))


def keep_thread_on(cores: frozenset[int]) -> None:
    """Let the calling thread run on these processors only, as far as it may use them at all; none: as it is."""
    if not hasattr(os, "sched_setaffinity"):
        return
    allowed = cores & os.sched_getaffinity(0)
    if allowed:
        os.sched_setaffinity(threading.get_native_id(), allowed)
