import sys

import numpy as np
import pytest

from sandseal_host.runtime import memory
from sandseal_host.runtime.memory import DeviceMemory, resident_bytes, spare_memory, system_memory, trim

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what is resident")


def test_what_is_touched_is_resident():
    before = resident_bytes()
    block = np.ones(50_000_000, np.uint8)
    assert resident_bytes() - before > 40_000_000
    del block


def test_trim_returns_what_lies_free_below_something_used():
    blocks = [np.ones(65_536, np.uint8) for _ in range(1000)]
    used = blocks.pop()
    blocks.clear()
    freed = resident_bytes()
    trim()
    assert freed - resident_bytes() > 40_000_000
    assert used.all()


def proc(folder, total: int, available: int):
    """A /proc that says so, in KiB."""
    (folder / "meminfo").write_text(f"MemTotal: {total} kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n")
    return folder


def cgroup(folder, limit: str, current: int, inactive: int):
    (folder / "memory.max").write_text(limit)
    (folder / "memory.current").write_text(f"{current}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {inactive}\nactive_file 3\n")
    return folder


def test_the_machine_s_memory_is_this_process_s(tmp_path):
    memory = system_memory()
    assert memory.total > memory.free > 0
    assert system_memory(proc(tmp_path, 1000, 400), tmp_path / "none") == DeviceMemory(1000 << 10, 400 << 10)


def test_a_control_group_may_have_less(tmp_path):
    machine = proc(tmp_path, 1000, 400)
    assert system_memory(machine, cgroup(tmp_path, "max\n", 1, 1)) == DeviceMemory(1000 << 10, 400 << 10)
    assert system_memory(machine, cgroup(tmp_path, "500000\n", 300_000, 100_000)) == DeviceMemory(500_000, 300_000)
    assert system_memory(machine, cgroup(tmp_path, "500000\n", 600_000, 0)) == DeviceMemory(500_000, 0)
    assert system_memory(machine, cgroup(tmp_path, f"{1 << 40}\n", 0, 0)) == DeviceMemory(1000 << 10, 400 << 10)


def test_what_is_to_spare_ends_at_the_watermark(monkeypatch):
    monkeypatch.setattr(memory, "system_memory", lambda: DeviceMemory(1000, 400))
    assert (spare_memory(0.75), spare_memory(0.5)) == (150, -100)
