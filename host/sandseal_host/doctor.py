"""What this machine can and cannot do for Sandseal, each finding with what to do about it."""

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from sandseal_signing.errors import SandsealError

_CONFINE = """
import json
from sandseal_host.confinement import confine
print(json.dumps(confine(memory=1 << 30, cpu_s=10, threads=1, readable=())))
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Args:
        state: `yes`, `no`, or `without` for what is done without.
    """

    subject: str
    state: str
    detail: str


def examine() -> Iterator[Finding]:
    """Look at the interpreter, the installed extras, the sandbox, the devices and the plugin compilers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("python", "yes", f"{platform.python_version()} on {platform.platform()}, {cores} cores")
    yield _packages("sign, push, call", "", ("cryptography", "httpcore"))
    yield _packages("build plugins", "sdk", ("pythran", "ziglang"))
    yield _packages("host", "cpu", ("fastapi", "uvicorn", "sqlalchemy", "alembic", "orjson"))
    yield _sandbox()
    yield from _devices()
    yield _fast_loop()
    yield from _confinement()
    yield _memory_trim()


def _packages(subject: str, extra: str, names: tuple[str, ...]) -> Finding:
    try:
        found = ", ".join(f"{name} {version(name)}" for name in names)
    except PackageNotFoundError as missing:
        package = f"sandseal[{extra}]" if extra else "sandseal"
        return Finding(subject, "no", f"{missing.name} is missing: pip install '{package}'")
    return Finding(subject, "yes", found)


def _sandbox() -> Finding:
    try:
        from sandseal_host.sandbox.engine import SandboxEngine
    except ModuleNotFoundError as missing:
        return Finding("sandbox", "no", f"{missing.name} is missing: pip install 'sandseal[sdk]'")
    with SandboxEngine() as engine:
        pooled = "fresh instances from a pool" if engine.pooling else "fresh instances on demand (no pool to be had)"
    return Finding("sandbox", "yes", f"wasmtime {version('wasmtime')}, {pooled}")


def _devices() -> Iterator[Finding]:
    try:
        from sandseal_host.runtime.device import Device
    except ModuleNotFoundError as missing:
        yield Finding("cpu", "no", f"{missing.name} is missing: pip install 'sandseal[cpu]'")
        return
    for name in ("cpu", "cuda"):
        try:
            device = Device.parse(name)
            device.check()
            yield Finding(name, "yes", f"ONNX Runtime can use it; devices: {device.backend.count()}")
        except SandsealError as error:
            yield Finding(name, "no", error.message)


def _fast_loop() -> Finding:
    missing = [name for name in ("uvloop", "httptools") if importlib.util.find_spec(name) is None]
    if missing:
        return Finding("fast HTTP", "without", f"{', '.join(missing)} missing: asyncio and h11 serve, slower")
    return Finding("fast HTTP", "yes", "uvloop and httptools")


def _confinement() -> Iterator[Finding]:
    if sys.platform != "linux":
        yield Finding("leases", "without", "Linux only: large weights go unwatched")
        yield Finding("confined processes", "without", "Linux only: vetting has fewer walls, plugins run on threads")
        return
    yield Finding("leases", "yes", "on local file systems")
    missing = _refused_to_a_child()
    if missing:
        yield Finding("confined processes", "without", f"this system does not grant {', '.join(missing)}")
    else:
        yield Finding("confined processes", "yes", "no network, no files, fewer system calls, limited memory")


def _refused_to_a_child() -> list[str]:
    """What the system does not let a process give up, as tried in one."""
    command = [sys.executable, "-P", "-B", "-c", _CONFINE]
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=True)
        return [str(noun) for noun in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError):
        return ["a process that can be confined"]


def _memory_trim() -> Finding:
    if sys.platform == "linux":
        return Finding("memory back after unload", "yes", "malloc_trim")
    return Finding("memory back after unload", "without", "only Linux's allocator can be asked to give memory back")
