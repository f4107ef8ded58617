"""Steps 12 to 14 of an upload in a child process: whatever a bundle's model and plugins do there, the host goes on."""

import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from sandseal_host.errors import SettingsInvalid, ShuttingDown
from sandseal_host.settings import Settings
from sandseal_host.vetting.handover import Order, handed_over
from sandseal_host.vetting.outcome import Ending, Report
from sandseal_signing.bundle import Bundle
from sandseal_signing.names import MANIFEST

_COMMAND = (sys.executable, "-P", "-B", "-m", "sandseal_host.vetting.child")
# What a Python and its native libraries need to be found and to be the same ones; nothing else is handed on.
_ENVIRONMENT = (
    "PATH", "LANG", "LC_ALL", "HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES",
    "PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE",
)  # fmt: skip
_LIBRARIES = {
    # Left alone, they start a thread per core, whose stacks count as memory.
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "2",
    # ONNX Runtime reports home by default (onnxruntime#27379).
    "ORT_DISABLE_TELEMETRY": "1",
}  # fmt: skip

_COPIES = 4  # of a model's bytes: as read, as parsed, as ONNX Runtime's weights, as packed for its kernels
_MAX_OUTPUT, _MAX_NOISE, _CHUNK = 1 << 20, 4096, 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VettingStatistics:
    """How many bundles are being looked into, and how many wait for their turn."""

    running: int
    waiting: int


class Vetting:
    """Looks into verified bundles, each in a process of its own and few at once; thread-safe.

    Such a process has none of this host's environment and descriptors, no network, and no files, memory or threads
    beyond its needs, as far as the system can hold it to that; what it cannot hold is logged once.

    Args:
        settings: the limits, and the device and threads that models will have.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._guard = threading.Lock()
        self._free = threading.Condition(self._guard)
        self._running = self._waiting = 0
        self._children: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._told: tuple[str, ...] = ()

    def vet(self, bundle: Bundle, folder: Path | None = None) -> None:
        """See that a bundle can be built and its model runs; blocks until its turn, then for `vet_time_s` at most.

        Args:
            bundle: with its files' bytes.
            folder: holds the weights that are not among them, which the host then need not hold as bytes.

        Raises:
            ModelInvalid: it is not what the manifest says, crashes what reads it, or needs too much.
            PluginError: a plugin breaks the ABI or cannot be initialised.
            OperatorError: the device is not there, or no such process can be started.
            ShuttingDown: the host closed this meanwhile.
        """
        if not bundle.manifest.files:  # a pipeline without plugins of its own
            return
        order = self._order(bundle, folder)
        try:
            with self._turn(), handed_over(order, bundle.files) as file, self._child(file) as child:
                output, noise, late = _listen(child, time.monotonic() + self._settings.vet_time_s)
        except OSError as error:
            raise SettingsInvalid(
                f"no process can be started to vet bundles: {error.strerror}",
                hint="free memory, processes or descriptors on this machine",
            ) from error
        if self._closed:
            raise ShuttingDown("the host stopped while the bundle was vetted")
        ending = Ending(Report.read(output), noise, child.returncode, late)
        self._tell(ending.report.missing)
        refusal = ending.error(order, self._settings.vet_time_s)
        if refusal is not None:
            raise refusal

    def close(self) -> None:
        """End what runs; whoever waits for it is told that the host stops."""
        with self._guard:
            self._closed = True
            self._free.notify_all()
            for child in self._children:
                _kill(child)

    def statistics(self) -> VettingStatistics:
        """Counts as of now."""
        with self._guard:
            return VettingStatistics(self._running, self._waiting)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One of the `vettings` places, once it is free."""
        with self._free:
            if self._running >= self._settings.vettings:
                _log.info("a bundle waits to be vetted, with %d others before it", self._running + self._waiting)
            self._waiting += 1
            self._free.wait_for(lambda: self._closed or self._running < self._settings.vettings)
            self._waiting -= 1
            self._running += 1
        try:
            yield
        finally:
            with self._free:
                self._running -= 1
                self._free.notify()

    def _order(self, bundle: Bundle, folder: Path | None) -> Order:
        names = (MANIFEST, *sorted(bundle.manifest.files))
        sizes = {name: len(bundle.files[name]) for name in names if name in bundle.files or folder is None}
        size = sum(bundle.statement.sizes[name] for name in names)
        return Order(
            memory=(self._settings.vet_memory_mib << 20) + _COPIES * size,
            cpu_s=self._settings.vet_cpu_s,
            device=self._settings.device.partition(",")[0],
            threads=self._settings.threads,
            max_rows=self._settings.max_rows,
            sizes=sizes,
            folder=str(folder) if folder else None,
        )

    @contextmanager
    def _child(self, order: IO[bytes]) -> Iterator["subprocess.Popen[bytes]"]:
        with self._guard:
            if self._closed:
                raise ShuttingDown("the host is stopping")
            child = subprocess.Popen(
                _COMMAND,
                stdin=order,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _LIBRARIES,
                start_new_session=True,  # no terminal, and a process group to end as a whole
            )
            self._children.add(child)
        with child:  # which closes the pipes and waits at the end
            try:
                yield child
            finally:
                with self._guard:  # once it was waited for, its number may be another's
                    self._children.discard(child)
                    _kill(child)

    def _tell(self, missing: tuple[str, ...]) -> None:
        if missing and missing != self._told:
            self._told = missing
            _log.warning("bundles are vetted without %s here", ", ".join(missing))


def _listen(child: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes, bool]:
    """What a child says until it is gone or says too much, the end of its noise, and whether its time was over."""
    output, noise = bytearray(), bytearray()
    with selectors.DefaultSelector() as pipes:
        for pipe, heard in ((child.stdout, output), (child.stderr, noise)):
            pipes.register(cast(IO[bytes], pipe), selectors.EVENT_READ, heard)
        while pipes.get_map() and len(output) <= _MAX_OUTPUT:
            left = deadline - time.monotonic()
            ready = pipes.select(left) if left > 0 else ()
            if not ready:
                return bytes(output), bytes(noise), True
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                key.data.extend(chunk)
                if not chunk:
                    pipes.unregister(key.fileobj)
            del noise[:-_MAX_NOISE]
    return bytes(output), bytes(noise), False


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """End a child that was not waited for yet, if it has not ended, and all of its process group."""
    with suppress(ProcessLookupError, PermissionError):  # macOS permits nothing to be sent to the dead
        os.killpg(child.pid, signal.SIGKILL)
