"""Prove the CUDA side on this machine: `make gpu-check`. Takes a minute or two, and an NVIDIA GPU.

Prints what held. Status 0: all did; 1: something did not; 2: there is nothing to check here, and why.
"""

import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests' own models

import numpy as np

from gpu.checks import ANYWHERE, Check, Failed, expect, inputs_for, opened
from sandseal_host.errors import DeviceUnavailable, SettingsInvalid
from sandseal_host.runtime.device import Device, DeviceKind
from sandseal_host.runtime.devices import Devices
from support.onnx_models import mlp, reshaping


def main() -> int:
    """Run all checks on the first GPU."""
    device = Device(DeviceKind.CUDA)
    try:
        device.check()
    except (DeviceUnavailable, SettingsInvalid) as missing:
        print(f"nothing to check: {missing.message}\n{missing.hint or ''}".strip())
        return 2
    return run(device, {**CUDA, **ANYWHERE})


def run(device: Device, checks: Mapping[str, Check]) -> int:
    """Print a line for each check; 1 if one of them failed."""
    failed = 0
    for name, check in checks.items():
        began = time.monotonic()
        try:
            word, detail = "held", check(device)
        except Failed as reason:
            word, detail = "FAILED", str(reason)
        except Exception as error:  # whatever CUDA has to say: the other checks go on
            traceback.print_exc()
            word, detail = "FAILED", f"{type(error).__name__}: {error}"
        failed += word == "FAILED"
        print(f"{name:<20} {word:<7} {time.monotonic() - began:6.1f} s  {detail}", flush=True)
    print(f"{len(checks) - failed} of {len(checks)} held on {device}")
    return int(failed > 0)


def versions(_: Device) -> str:
    """What is installed."""
    import onnxruntime
    import torch

    built = f"ONNX Runtime {onnxruntime.__version__} for CUDA {getattr(onnxruntime, 'cuda_version', '?')}"
    return f"{torch.cuda.get_device_name(0)}; {built}, torch {torch.__version__} for CUDA {torch.version.cuda}"


def devices(device: Device) -> str:
    """How many there are, what is free, which processors are near."""
    found = Devices.parse("cuda")
    free = ", ".join(f"{each}: {each.memory().free >> 30} of {each.memory().total >> 30} GiB free" for each in found)
    return f"{free}; {len(device.backend.cores(0))} processors near (0: all alike)"


def providers(device: Device) -> str:
    """Every node of a session is CUDA's, by ONNX Runtime's own account."""
    import onnxruntime

    model, options, staging = mlp(), onnxruntime.SessionOptions(), device.staging()
    device.configure(options)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    core = onnxruntime.InferenceSession(model.data, options, providers=device.providers(staging), enable_fallback=0)
    device.check_session(core)
    expect(core.get_providers()[0] == "CUDAExecutionProvider", f"it runs on {core.get_providers()}")
    used: Counter[str] = Counter()
    for part in core.get_provider_graph_assignment_info():
        used[part.ep_name] += len(part.get_nodes())
    expect(set(used) == {"CUDAExecutionProvider"}, f"nodes by provider: {dict(used)}")
    return f"nodes by provider: {dict(used)}"


def pinned(device: Device) -> str:
    """Buffers are page-locked, which makes copies faster."""
    import torch

    staging, size = device.staging(), 256 << 20
    assert staging is not None
    staging.enter()
    host, memory, stream = staging.host(size), staging.memory(size), staging.stream()
    expect(torch.from_numpy(host).is_pinned(), "the buffers are pageable")

    def copy() -> float:
        began = time.perf_counter()
        stream.upload(memory.pointer, host)
        stream.record().wait()
        return size / (time.perf_counter() - began) / 1e9

    there = torch.empty(size, dtype=torch.uint8, device="cuda")
    pageable = torch.zeros(size, dtype=torch.uint8)
    rates = [max(copy() for _ in range(5)), max(_rates(there, pageable, size))]
    return f"{rates[0]:.1f} GB/s to the device, {rates[1]:.1f} from pageable memory"


def _rates(there, here, size: int) -> Iterator[float]:
    import torch

    for _ in range(5):
        began = time.perf_counter()
        there.copy_(here)
        torch.cuda.synchronize()
        yield size / (time.perf_counter() - began) / 1e9


def shape_nodes(device: Device) -> str:
    """A model that computes with shapes loads, although ONNX Runtime puts such nodes on the CPU."""
    model = reshaping()
    with opened(model, device) as session:
        (x,) = inputs = inputs_for(model, 3)
        expect(np.array_equal(session.run([inputs])[0][0].data, x.data.reshape(3, 2, 4)), "the answer is wrong")
        nodes = Counter(part.ep_name for part in session._core.get_provider_graph_assignment_info())
    return f"parts by provider: {dict(nodes)}"


CUDA: Mapping[str, Check] = {
    "versions": versions,
    "devices": devices,
    "providers": providers,
    "pinned copies": pinned,
    "shape nodes": shape_nodes,
}


if __name__ == "__main__":
    sys.exit(main())
