"""How wasmtime is configured: what a guest may use of WebAssembly, and where its memory comes from.

Run as a program, it makes an engine with the pooling allocator and exits. A pool that cannot be had (address space)
and settings that contradict each other abort the process in wasmtime 50, so a child tries them first. For that
reason this module imports nothing of ours.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from wasmtime import Config, Engine
from wasmtime import _ffi as ffi

MAX_INSTANCES = 256
MAX_TABLES, MAX_TABLE_ELEMENTS = 4, 20_000
MAX_STACK = 512 << 10  # bytes; Python's threads have at least a few MiB
# Bytes at the start of each pooled memory that are zeroed in place instead of given back, which saves page faults.
# wasmtime fixes this for an engine, not for a module, but never zeroes more than a memory has, so a plugin pays for its
# own footprint up to here. A call that touches 1.2 MB took 390 us with 1 MiB kept, 240 us with 2 MiB and with 4 MiB;
# one that touches nothing of its 4 MiB took 78, 115 and 146 us.
KEEP_RESIDENT = 2 << 20

_OFF = (
    "threads", "tail_call", "multi_memory", "memory64", "relaxed_simd", "exceptions", "function_references", "gc",
    "wide_arithmetic", "custom_page_sizes", "stack_switching", "component_model", "component_model_map",
    "component_model_implements",
)  # fmt: skip


def new_engine(*, pooling: bool, fuel: bool = False, instances: int = MAX_INSTANCES) -> Engine:
    """An engine with the strict feature set; reference types stay on, since turning them off aborts the process.

    Args:
        pooling: keep memories in a pool.
        fuel: count the instructions that guests run, and let every NaN have the same bits, so that tests and builds go
            alike on every machine; hosts only stop guests in time.
        instances: that the pool has room for at once.
    """
    config = Config()
    config.consume_fuel = config.cranelift_nan_canonicalization = fuel
    config.strategy = "cranelift"
    config.epoch_interruption = True
    config.max_wasm_stack = MAX_STACK
    config.gc_support = False
    for feature in _OFF:
        setattr(config, f"wasm_{feature}", False)
    if pooling:
        _use_pool(config, instances)
    return Engine(config)


def _use_pool(config: Config, instances: int) -> None:
    pool = ffi.wasmtime_pooling_allocation_config_new()
    for name, value in (
        ("total_core_instances", instances),
        ("total_memories", instances),
        ("total_tables", instances * MAX_TABLES),
        ("total_component_instances", 0),
        ("total_stacks", 0),
        ("total_gc_heaps", 0),
        ("max_tables_per_module", MAX_TABLES),
        ("table_elements", MAX_TABLE_ELEMENTS),
        ("max_memory_size", 1 << 32),  # the store's limit is the one that counts
        ("linear_memory_keep_resident", KEEP_RESIDENT),
        ("table_keep_resident", 64 << 10),
        ("max_unused_warm_slots", 32),
    ):
        getattr(ffi, f"wasmtime_pooling_allocation_config_{name}_set")(pool, value)
    ffi.wasmtime_pooling_allocation_strategy_set(config.ptr(), pool)
    ffi.wasmtime_pooling_allocation_config_delete(pool)


@cache
def can_pool() -> bool:
    """Whether an engine with the pooling allocator can be made here, as tried in a child process."""
    try:
        child = subprocess.run(
            [sys.executable, "-I", str(Path(__file__))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return child.returncode == 0


if __name__ == "__main__":
    new_engine(pooling=True)
    os._exit(0)
