"""NVIDIA's driver by ctypes: what devices there are, and copies between host and device by address."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from sandseal_host.errors import DeviceUnavailable

_LIBRARY = "libcuda.so.1"


def device_count() -> int:
    """How many devices the driver shows this process.

    Raises:
        DeviceUnavailable: no driver, or it does not start.
    """
    driver, count = _load(ctypes.CDLL), ctypes.c_int()
    check(driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)), "does not start")
    return count.value


def bus_id(index: int) -> str:
    """Where a device sits, as Linux writes it: `0000:17:00.0`.

    Raises:
        DeviceUnavailable: see `device_count`.
    """
    device_count()
    driver, text = _load(ctypes.CDLL), ctypes.create_string_buffer(32)
    check(driver.cuDeviceGetPCIBusId(text, len(text), index), f"does not say where device {index} is")
    return text.value.decode("ascii").lower()


def copy_in(target: int, source: int, size: int, stream: int) -> None:
    """Begin a copy from pinned host memory to the device, behind what is on the stream.

    Raises:
        DeviceUnavailable: the driver refuses it.
    """
    check(_copies()[0](target, source, size, stream), "refuses a copy to the device")


def copy_out(target: int, source: int, size: int, stream: int) -> None:
    """Begin a copy from the device to pinned host memory, behind what is on the stream.

    Raises:
        DeviceUnavailable: the driver refuses it.
    """
    check(_copies()[1](target, source, size, stream), "refuses a copy from the device")


def copy_within(target: int, source: int, size: int, stream: int) -> None:
    """Begin a copy from one address on the device to another, behind what is on the stream.

    Raises:
        DeviceUnavailable: the driver refuses it.
    """
    check(_copies()[2](target, source, size, stream), "refuses a copy on the device")


def check(status: int, what: str) -> None:
    """See that the driver did what it was asked.

    Raises:
        DeviceUnavailable: it did not.
    """
    if status:
        raise DeviceUnavailable(f"the CUDA driver {what}: error {status}", status=status)


@cache
def _copies() -> tuple[Callable[..., int], Callable[..., int], Callable[..., int]]:
    """The driver's; they return at once, so that giving the interpreter lock away would cost more than it gives."""
    driver = _load(ctypes.PyDLL)
    address = ctypes.c_uint64  # also of the stream, which is a pointer
    into, out, within = driver.cuMemcpyHtoDAsync_v2, driver.cuMemcpyDtoHAsync_v2, driver.cuMemcpyDtoDAsync_v2
    into.argtypes = out.argtypes = within.argtypes = [address, address, ctypes.c_size_t, address]
    return into, out, within


def _load(kind: type[ctypes.CDLL]) -> Any:
    try:
        return kind(_LIBRARY)
    except OSError:
        raise DeviceUnavailable(f"{_LIBRARY} is missing: there is no NVIDIA driver here") from None
