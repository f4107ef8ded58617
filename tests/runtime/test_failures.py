import pytest

from sandseal_host.errors import DeviceUnavailable, MemoryExhausted, ModelFailed, ModelInvalid, RequestInvalid
from sandseal_host.runtime.failures import load_failure, run_failure

CASES = [
    (MemoryError(), MemoryExhausted, MemoryExhausted),
    (RuntimeError("Failed to allocate memory for requested buffer of size 9"), MemoryExhausted, MemoryExhausted),
    (RuntimeError("std::bad_alloc"), MemoryExhausted, MemoryExhausted),
    (RuntimeError("Available memory of 1 is smaller than requested bytes of 2"), MemoryExhausted, MemoryExhausted),
    (RuntimeError("CUDA failure 100: no CUDA-capable device is detected"), DeviceUnavailable, ModelFailed),
    (RuntimeError("Load model failed: INVALID_GRAPH"), ModelInvalid, ModelFailed),
    (ValueError("all the input array dimensions must match"), ModelInvalid, ModelFailed),
]


@pytest.mark.parametrize(("error", "at_load", "at_run"), CASES)
def test_each_failure_has_its_class(error, at_load, at_run):
    assert type(load_failure(error, "model.onnx")) is at_load
    assert type(run_failure(error)) is at_run


def test_our_own_errors_stay_as_they_are():
    error = RequestInvalid("not UTF-8")
    assert run_failure(error) is error


def test_messages_are_one_line_without_paths_of_the_build():
    text = (
        "Error in execution: Non-zero status code returned while running Gather node. Name:'' Status Message: "
        "indices element out of data bounds, idx=99 must be within the inclusive range [-8,7]\nstack ..."
    )
    assert run_failure(RuntimeError(text)).message == (
        "the run failed: Non-zero status code returned while running Gather node. Name:'' Status Message: "
        "indices element out of data bounds, idx=99 must be within the inclusive range [-8,7]"
    )
    place = "[ONNXRuntimeError] : 1 : FAIL : /onnxruntime_src/core/x.cc:12 void f(int) Something is wrong"
    message = load_failure(RuntimeError(place), "model.onnx").message
    assert message == "model.onnx does not load: void f(int) Something is wrong"
