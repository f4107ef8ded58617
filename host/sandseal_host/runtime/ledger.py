"""Who holds how much of which device, and whether another model fits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

from sandseal_host.errors import HostError, MemoryExhausted
from sandseal_host.runtime.decoder import Decoder, DecoderStatistics
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.memory import DeviceMemory
from sandseal_host.runtime.session import Session, SessionStatistics

Holder = tuple[str, int]
"""A model's name and version."""

_SMALL = 100  # what needs less than this part of a device makes nobody give way


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """A device's memory, in bytes.

    Args:
        total_bytes: what there is; 0 where the system does not say.
        free_bytes: live, so that what other processes hold counts.
        held_bytes: by the models here, as measured when they were loaded, and by their buffers.
        promised_bytes: to models that are being loaded.
        models: that are loaded.
        evicted_total: models that were unloaded to make room.
    """

    total_bytes: int
    free_bytes: int
    held_bytes: int
    promised_bytes: int
    models: int
    evicted_total: int


async def _nobody(_: Collection[Holder]) -> bool:
    return False


class MemoryLedger:
    """The sessions on the host's devices. Knows them weakly: who closes or drops one need not tell.

    Args:
        devices: all that there are.
        watermark: part of a device's memory above which idle models give way to what is loaded.
    """

    def __init__(self, devices: Devices, watermark: float) -> None:
        self._devices, self._watermark = devices, watermark
        self._sessions: WeakKeyDictionary[Session | Decoder, Holder] = WeakKeyDictionary()
        self._lock = Lock()  # around the sessions: they are entered by the threads that build them
        self._promised: Counter[Device] = Counter()
        self._evicted: Counter[Device] = Counter()
        self.give_way: Callable[[Collection[Holder]], Awaitable[bool]] = _nobody
        """Unloads the one of these that was idle longest; False where none is idle. Set by who can."""

    def enter(self, session: Session | Decoder, holder: Holder) -> None:
        """Count a session until it is closed."""
        with self._lock:
            self._sessions[session] = holder

    @asynccontextmanager
    async def room(self, devices: Sequence[Device], name: str, need: int) -> AsyncIterator[None]:
        """Keep memory free on each device while a model is loaded; idle models are unloaded for it.

        Args:
            devices: where it is loaded.
            name: of the model, whose other versions stay.
            need: bytes on each.

        Raises:
            MemoryExhausted: there is less left than that; the message has the figures.
        """
        async with AsyncExitStack() as promises:
            for device in devices:
                await self._make_room(device, name, need)
                self._promised[device] += need
                promises.callback(self._promised.subtract, {device: need})
            yield

    def spare(self, replicas: int) -> int:
        """Bytes that a model may take of each of so many devices before anybody has to make room for it; blocks."""
        return min(self._look(device)[2] for device in self._devices.choose(replicas))

    def statistics(self) -> Iterator[tuple[Mapping[str, str], DeviceStatistics]]:
        """Each device's figures, labelled with its name."""
        for device in self._devices:
            memory, held = device.memory(), [s.statistics() for s, _ in self._on(device)]
            yield (
                {"device": str(device)},
                DeviceStatistics(
                    memory.total,
                    memory.free,
                    sum(each.resident_bytes + each.buffer_bytes for each in held),
                    self._promised[device],
                    len(held),
                    self._evicted[device],
                ),
            )

    def session_statistics(self) -> Iterator[tuple[Mapping[str, str], SessionStatistics | DecoderStatistics]]:
        """Each session's figures, labelled with model, version and device."""
        for device in self._devices:
            for session, (name, version) in self._on(device):
                labels = {"model": name, "version": str(version), "device": str(device)}
                yield labels, session.statistics()

    def rest(self) -> None:
        """Let each session that was idle since the last time give back what runs have left behind; blocks."""
        for session, _ in self._open():
            with suppress(HostError):  # one that cannot run keeps what it has
                session.rest()

    async def _make_room(self, device: Device, name: str, need: int) -> None:
        while True:
            memory, free, spare = await asyncio.to_thread(self._look, device)
            if need <= spare or need * _SMALL < memory.total or not memory.total:
                break
            if not await self.give_way({holder for _, holder in self._on(device) if holder[0] != name}):
                break
            self._evicted[device] += 1
        if memory.total and need > free:
            left = f"{max(0, free) >> 20} of {memory.total >> 20} MiB are free"
            raise MemoryExhausted(
                f"{name} needs {need >> 20} MiB on {device}, of which {left}",
                hint="unload other models, or use a device with more memory",
                device=str(device), need=need, free=free, total=memory.total,
            )  # fmt: skip

    def _look(self, device: Device) -> tuple[DeviceMemory, int, int]:
        """A device's memory, the bytes of it that nobody has or was promised, and those of them below the watermark."""
        memory = device.memory()
        free = memory.free - self._promised[device]
        return memory, free, free - int((1 - self._watermark) * memory.total)

    def _on(self, device: Device) -> list[tuple[Session | Decoder, Holder]]:
        return [(session, holder) for session, holder in self._open() if session.device == device]

    def _open(self) -> list[tuple[Session | Decoder, Holder]]:
        with self._lock:
            return [(session, holder) for session, holder in self._sessions.items() if not session.closed]
