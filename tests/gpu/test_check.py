"""The half of `make gpu-check` that needs no GPU; the other half is run where there is one."""

import pytest

from gpu import check
from gpu.checks import ANYWHERE, Failed
from sandseal_host.runtime.device import Device
from sandseal_host.runtime.memory import DeviceMemory
from support.staged_device import StagedCpu, staged

SLOW = {"memory after unload", "memory of shapes", "overlap"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in ANYWHERE])
def test_what_needs_no_gpu_holds_on_a_device_beside_the_host(name):
    assert ANYWHERE[name](staged())


def test_the_table_says_what_held_and_what_did_not(capsys):
    def good(_: Device) -> str:
        return "as it should"

    def bad(_: Device) -> str:
        raise Failed("three rows too many")

    device = staged(0, StagedCpu((DeviceMemory(1, 1),)))
    assert check.run(device, {"this": good, "that": bad}) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["this", "held"], ["that", "FAILED"], ["1", "of"]]
    assert "three rows too many" in lines[1]
    assert check.run(device, {"this": good}) == 0


@pytest.mark.skipif(Device.parse("cuda").available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_what_is_missing(capsys):
    assert check.main() == 2
    assert "nothing to check: the installed ONNX Runtime is the CPU build" in capsys.readouterr().out
