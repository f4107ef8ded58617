"""ONNX Runtime's exceptions as ours: the only place that reads them."""

import re

from sandseal_host.errors import DeviceUnavailable, HostError, MemoryExhausted, ModelFailed, ModelInvalid

# ONNX Runtime has no type for these: out of memory comes as RuntimeException, a missing device as Fail or EPFail.
_MEMORY = ("failed to allocate memory", "bad_alloc", "bad allocation", "out of memory", "available memory of")
_DEVICE = ("explicitly disabled by the user", "no cuda-capable device", "cuda failure", "cudnn failure", "libcuda")
_NOISE = re.compile(r"^Error in execution: |\[ONNXRuntimeError\] : \d+ : \w+ : |\S*\.(?:cc|cpp|cu|h):\d+ ")


def load_failure(error: Exception, file: str) -> HostError:
    """What an exception while a session was made means.

    Args:
        error: ONNX Runtime's, or MemoryError.
        file: of the graph.
    """
    text = _text(error)
    if _memory(error, text):
        return MemoryExhausted(f"no memory to load {file}: {text}", file=file)
    if any(sign in text.lower() for sign in _DEVICE):
        return DeviceUnavailable(f"{file} does not load on the device: {text}", file=file)
    return ModelInvalid(f"{file} does not load: {text}", file=file)


def run_failure(error: Exception) -> HostError:
    """What an exception while a session ran means; a cause that an input can have is `ModelFailed`."""
    if isinstance(error, HostError):
        return error
    text = _text(error)
    if _memory(error, text):
        return MemoryExhausted(f"no memory to run the batch: {text}")
    return ModelFailed(f"the run failed: {text}")


def _memory(error: Exception, text: str) -> bool:
    return isinstance(error, MemoryError) or any(sign in text.lower() for sign in _MEMORY)


def _text(error: Exception) -> str:
    """The first line, without codes and places in ONNX Runtime's source."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _NOISE.sub("", lines[0])[:500]
