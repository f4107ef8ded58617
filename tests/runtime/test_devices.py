import pytest

from sandseal_host.errors import DeviceUnavailable, SettingsInvalid
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.devices import Devices
from sandseal_host.runtime.memory import DeviceMemory
from support.staged_device import StagedCpu, staged

GIB = 1 << 30


def machine(*free: int) -> Devices:
    """GPUs of 80 GiB with so much of it free."""
    backend = StagedCpu(tuple(DeviceMemory(80 * GIB, each * GIB) for each in free))
    return Devices([staged(index, backend) for index in range(len(free))])


@pytest.mark.parametrize("text", ["cpu", "cuda:0", "cuda:1,cuda:0"])
def test_devices_are_a_list_in_the_operator_s_order(text):
    assert str(Devices.parse(text)) == text


def test_names_may_have_spaces_between_them():
    assert list(Devices.parse("cuda:2, cuda:0")) == [Device(DeviceKind.CUDA, 2), Device(DeviceKind.CUDA, 0)]


@pytest.mark.parametrize("text", ["", ",", "cuda:0,", "cpu,cuda:0", "cuda:0,cuda:0", "cuda:0,cuda", "cpu,cpu"])
def test_other_lists_are_the_operator_s_mistake(text):
    with pytest.raises(SettingsInvalid):
        Devices.parse(text)


def test_cuda_alone_counts_them_which_takes_a_driver():
    if not Device.parse("cuda").available():
        with pytest.raises(DeviceUnavailable):
            Devices.parse("cuda")


def test_a_model_goes_where_most_is_free():
    assert [device.index for device in machine(10, 60, 30).choose()] == [1]
    assert [device.index for device in machine(10, 60, 30).choose(2)] == [1, 2]


def test_equal_ones_are_filled_in_the_operator_s_order():
    assert [device.index for device in machine(60, 60, 60).choose(2)] == [0, 1]


def test_more_replicas_than_devices_are_all_devices():
    assert len(machine(10, 60).choose(64)) == 2


def test_a_busy_device_has_two_runs_in_flight():
    assert machine(10).runs_at_once == 2
    assert Devices.parse("cpu").runs_at_once == 1
