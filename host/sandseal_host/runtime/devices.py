"""The devices that a host may use, and which of them a model goes to."""

from collections.abc import Iterator, Sequence
from typing import Self

from sandseal_host.errors import SettingsInvalid
from sandseal_host.runtime.device import Device, DeviceKind


class Devices:
    """Devices of one kind, in the operator's order.

    Args:
        devices: at least one.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = tuple(devices)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The devices that a setting names: `cpu`, `cuda` (every GPU), or a list such as `cuda:0,cuda:2`.

        Raises:
            SettingsInvalid: one of them is no device, stands there twice, or is of another kind.
            DeviceUnavailable: the GPUs are to be counted, and there is no driver.
        """
        if text == DeviceKind.CUDA:
            first = Device.parse(text)
            first.check()
            return cls([Device(first.kind, index) for index in range(first.backend.count())])
        devices = [Device.parse(name.strip()) for name in text.split(",")]
        if len(set(devices)) < len(devices) or len({device.kind for device in devices}) > 1:
            raise SettingsInvalid(
                f"{text!r} names a device twice, or devices of different kinds",
                hint="use cpu, cuda or a list such as cuda:0,cuda:1",
                device=text,
            )
        return cls(devices)

    @property
    def kind(self) -> DeviceKind:
        """What sort they are."""
        return self._devices[0].kind

    @property
    def runs_at_once(self) -> int:
        """Runs of one session that keep a device busy."""
        return self._devices[0].backend.runs_at_once

    def check(self) -> None:
        """See that sessions can be made on each.

        Raises:
            SettingsInvalid, DeviceUnavailable: see `Device.check`.
        """
        for device in self._devices:
            device.check()

    def choose(self, count: int = 1) -> list[Device]:
        """So many of them, or all; those with the most free memory, and of equal ones the operator's first."""
        if len(self._devices) == 1:
            return [self._devices[0]]
        return sorted(self._devices, key=lambda device: -device.memory().free)[:count]

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices)

    def __str__(self) -> str:
        return ",".join(map(str, self._devices))
