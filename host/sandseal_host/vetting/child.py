"""The process in which one bundle is vetted, started by `vetting.Vetting`; its standard input is the order.

It says on standard output how far it is and how it ended, one JSON object a line. What native code prints goes to
standard error.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from sandseal_host.confinement import confine
from sandseal_host.error_members import error_members
from sandseal_host.errors import MemoryExhausted
from sandseal_host.vetting.handover import Order, Step, take_over
from sandseal_signing.errors import SandsealError
from sandseal_signing.names import MANIFEST

if TYPE_CHECKING:
    from sandseal_host.runtime.device import Device

Progress = Callable[[Step, str], None]
"""Told of each step before it is taken, and for which file."""

# What Python, ONNX Runtime and wasmtime read besides Python's own folders; no place for anybody's secrets.
_SYSTEM = (
    "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys", "/dev/null", "/dev/urandom",
)  # fmt: skip


def main() -> None:
    """Take the order, give up everything else, look at the bundle, say what came of it."""
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    logging.disable()  # a plugin may write lines while it is tried, which nobody reads here
    say = partial(_say, output)
    order, files = take_over(0)
    say(missing=_confine(order))
    say(**_outcome(order, files, lambda step, file: say(step=step, file=file)))
    os._exit(0)  # the libraries' own clean-up is one more thing that could go wrong


def _say(output: IO[bytes], **members: Any) -> None:
    output.write(json.dumps(members).encode() + b"\n")


def _confine(order: Order) -> tuple[str, ...]:
    # A CUDA driver opens devices and caches of its own; which ones was not tried.
    weights = (order.folder,) if order.folder else ()
    readable = (sys.prefix, sys.base_prefix, *sys.path, *_SYSTEM, *weights) if order.device == "cpu" else None
    return confine(memory=order.memory, cpu_s=order.cpu_s, threads=order.threads, readable=readable)


def _outcome(order: Order, files: Mapping[str, memoryview], progress: Progress) -> dict[str, Any]:
    try:
        _vet(order, files, progress)
    except MemoryError as error:
        return {"exhausted": str(error)}
    except SandsealError as error:
        if isinstance(error, MemoryExhausted):
            return {"exhausted": error.message}
        if "alloc failed" in (cause := str(error.__cause__)):  # protobuf has no exception of its own for that
            return {"exhausted": cause}
        return {"refused": error_members(error)}
    return {"passed": True}


def _vet(order: Order, files: Mapping[str, memoryview], progress: Progress) -> None:
    # Imported after the confinement, which wants a single thread: ONNX Runtime starts one as it is imported.
    from sandseal_host.loader import Loader
    from sandseal_host.settings import read_settings
    from sandseal_signing.manifest import parse_manifest

    manifest = parse_manifest(bytes(files[MANIFEST]))
    model = manifest.model
    graphs, present = {model.file, *(variant.file for variant in model.variants)}, model.file

    def begin(file: str) -> None:
        nonlocal present
        present = file
        progress(Step.PARSE if file in graphs else Step.COMPILE, file)

    loader = Loader(
        read_settings(device=order.device, threads=order.threads, max_rows=order.max_rows, plugin_threads=1),
        device=_watched_device(order.device, lambda step: progress(step, present)),
        pooling=False,  # the pool reserves more address space than may be had, and one instance needs none
        progress=begin,
    )
    contents = {n: _content(view, shared=n in model.weights) for n, view in files.items()}
    loader.vet(manifest, contents, Path(order.folder) if order.folder else None)


def _content(view: memoryview, *, shared: bool) -> bytes:
    """A file's bytes; weights stay where they were handed over, since ONNX Runtime takes any buffer for them."""
    return cast(bytes, view) if shared else bytes(view)


def _watched_device(name: str, progress: Callable[[Step], None]) -> "Device":
    """The device, which is asked to configure a session and to check it: the moments before two of the steps."""
    from sandseal_host.runtime.device import Device

    class Watched(Device):
        def configure(self, options: Any) -> None:
            super().configure(options)
            progress(Step.SESSION)

        def check_session(self, session: Any) -> None:
            super().check_session(session)
            progress(Step.WARM_UP)

    return Watched.parse(name)


if __name__ == "__main__":
    main()
