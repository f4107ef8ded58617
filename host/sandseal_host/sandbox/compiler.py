"""Modules compiled in a process of their own, so that one which is made to be hard to compile is refused, no more.

How long compiling takes is the module's choice, and wasmtime calls that no vulnerability. The child has neither
files, network nor this host's environment, and its memory and time end. A module that took it over could still make it
give wrong code; one compiled in this process would not need that detour.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from typing import IO

from sandseal_host.errors import PluginInvalid, SettingsInvalid
from sandseal_host.private_cache import PrivateCache
from sandseal_host.sandbox.printable import printable

_COMMAND = (sys.executable, "-P", "-B", "-m", "sandseal_host.sandbox.compiler_child")
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE")
# Left alone, NumPy, which comes with the package, starts a thread per core, and so does wasmtime's compiler.
_LIBRARIES = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "2"}
_NO_MEMORY = re.compile(rb"memory allocation of|MemoryError|Cannot allocate memory")
_NOISE, _WORDS = 4096, 2000  # bytes of what it prints, and of what it says, that are looked at

REFUSED = 3  # the child's exit status for a module that wasmtime refuses


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """What compiling one module may use.

    Args:
        memory: bytes.
        cpu_s: seconds of processor time, all threads together.
        time_s: seconds.
    """

    memory: int = 2 << 30
    cpu_s: int = 120
    time_s: float = 300.0


class Compiler:
    """Native code of modules: as it was kept, else compiled in a child; from any thread.

    Args:
        cache: keeps the code.
        limits: of one child.
    """

    def __init__(self, cache: PrivateCache, limits: CompileLimits = CompileLimits()) -> None:
        self.cache, self._limits = cache, limits

    def code(self, wasm: bytes, fingerprint: str, label: str) -> bytes:
        """The code of a module that starts with wasm's magic.

        Args:
            wasm: the module as signed.
            fingerprint: of the engine that will run it; see `SandboxEngine.fingerprint`.
            label: names the plugin in errors.

        Raises:
            PluginInvalid: it does not compile, crashes the compiler, or needs more than the limits.
            SettingsInvalid: no process can be started.
        """
        key = sha256(f"{fingerprint} {sha256(wasm).hexdigest()}".encode()).hexdigest()
        code = self.cache.get(key)
        if code is None:
            code = _compile(wasm, self._limits, label)
            self.cache.put(key, code)
        return code


def _compile(wasm: bytes, limits: CompileLimits, label: str) -> bytes:
    command = (*_COMMAND, str(limits.memory), str(limits.cpu_s))
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _LIBRARIES
    # Files, not pipes: the child's limit on file sizes holds for them.
    with tempfile.TemporaryFile() as module, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as noise:
        module.write(wasm)
        module.seek(0)
        try:
            done = subprocess.run(
                command, stdin=module, stdout=output, stderr=noise, env=environment,
                start_new_session=True, timeout=limits.time_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _over(label, f"{limits.time_s:g} s of time", "TIME_S") from None
        except OSError as error:
            raise SettingsInvalid(
                f"no process can be started to compile plugins: {error.strerror}",
                hint="free memory, processes or descriptors on this machine",
            ) from error
        said = _read(output)
        if done.returncode == 0:
            return said
        raise _failed(done.returncode, said[:_WORDS], _read(noise)[-_NOISE:], limits, label)


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _failed(status: int, said: bytes, noise: bytes, limits: CompileLimits, label: str) -> PluginInvalid:
    if status == REFUSED:
        return does_not_compile(label, said.decode("utf-8", "replace"))
    if status == -signal.SIGXCPU:
        return _over(label, f"{limits.cpu_s} s of processor time", "CPU_S")
    if _NO_MEMORY.search(noise):
        return _over(label, f"{limits.memory >> 20} MiB of memory", "MEMORY_MIB")
    return PluginInvalid(
        f"plugin {label!r} crashed the compiler, which ended with status {status}",
        hint="build it with other compiler options, and report it to the makers of wasmtime",
        plugin=label, status=status, said=printable(noise, _NOISE),
    )  # fmt: skip


def _over(label: str, most: str, setting: str) -> PluginInvalid:
    return PluginInvalid(
        f"plugin {label!r} takes more than {most} to compile",
        hint=f"make its functions smaller, or ask the operator to raise SANDSEAL_VET_{setting}",
        plugin=label, limit=setting.lower(),
    )  # fmt: skip


def does_not_compile(label: str, why: str) -> PluginInvalid:
    """The error for a module that wasmtime refuses, in wasmtime's own words."""
    return PluginInvalid(f"plugin {label!r} does not compile: {printable(' '.join(why.split()), 500)}", plugin=label)
