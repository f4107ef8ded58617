import onnxruntime
import pytest

from sandseal_host.errors import DeviceUnavailable, SettingsInvalid
from sandseal_host.runtime.device import Device, DeviceKind, check_wheels
from sandseal_host.runtime.session import Session
from support import onnx_models

CUDA = "CUDAExecutionProvider" in onnxruntime.get_available_providers()


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cpu", Device(DeviceKind.CPU)),
        ("cuda", Device(DeviceKind.CUDA, 0)),
        ("cuda:1", Device(DeviceKind.CUDA, 1)),
    ],
)
def test_devices_are_named_in_three_ways(text, device):
    assert Device.parse(text) == device
    assert Device.parse(str(device)) == device


@pytest.mark.parametrize("text", ["", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:1 "])
def test_other_names_are_the_operator_s_mistake(text):
    with pytest.raises(SettingsInvalid, match="not a device"):
        Device.parse(text)


def test_the_cpu_is_there():
    Device.parse("cpu").check()
    assert Device.parse("cpu").available()


@pytest.mark.skipif(CUDA, reason="the GPU build of ONNX Runtime is installed")
def test_cuda_without_its_build_says_what_to_install():
    device = Device.parse("cuda")
    assert not device.available()
    with pytest.raises(DeviceUnavailable, match="CPU build") as refused:
        device.check()
    assert "sandseal[gpu]" in refused.value.hint


@pytest.mark.skipif(CUDA, reason="the GPU build of ONNX Runtime is installed")
@pytest.mark.filterwarnings("ignore:Specified provider 'CUDAExecutionProvider':UserWarning")
def test_no_session_falls_back_to_the_cpu():
    model = onnx_models.mlp()
    with pytest.raises(DeviceUnavailable):
        Session.open(model.files, Device.parse("cuda"))


def test_both_builds_at_once_are_explained():
    check_wheels(frozenset({"onnxruntime", "numpy"}))
    check_wheels(frozenset({"onnxruntime-gpu"}))
    with pytest.raises(SettingsInvalid, match="same folder"):
        check_wheels(frozenset({"onnxruntime", "onnxruntime-gpu"}))
