"""What loading a model of 600 MB costs, in a process of its own: `python tests/bench/loading.py MODE FOLDER`."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sandseal_host.runtime.device import Device
from sandseal_host.runtime.memory import resident_bytes
from sandseal_host.runtime.model_files import ModelFiles
from sandseal_host.runtime.session import Session
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import DataType
from support.onnx_models import OnnxModel, layers_outside

WIDTH, LAYERS = 4096, 9  # 604 MB


def model() -> OnnxModel:
    """Its graph; the weights are written by `write`."""
    return layers_outside(WIDTH, LAYERS)


def write(folder: Path) -> Path:
    """The weights' file."""
    (name,) = model().spec.external_data
    block = np.random.default_rng(0).standard_normal((WIDTH, WIDTH), np.float32) / np.float32(WIDTH**0.5)
    with (folder / name).open("wb") as file:
        for _ in range(LAYERS):
            block.tofile(file)
            block *= np.float32(1.01)  # equal weights would be kept once
        file.flush()
        os.fsync(file.fileno())  # only what lies on the disk can be forgotten
    return folder / name


def forget(file: Path) -> None:
    """Take a file out of the page cache, so that whoever reads it next waits for the disk."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main(mode: str, folder: Path) -> None:
    """Load and answer once; prints seconds and the memory above that of the imports."""
    made = model()
    (name,) = made.spec.external_data
    x = Tensor("x", DataType.FP32, (1, WIDTH), np.ones((1, WIDTH), np.float32))
    before, began = resident_bytes(), time.monotonic()
    weights = {name: (folder / name).read_bytes()} if mode == "bytes" else {}
    files = ModelFiles(made.spec, made.data, weights, folder if mode == "path" else None)
    session = Session.open(files, Device.parse("cpu"))
    weights.clear()
    loaded = time.monotonic()
    session.run([(x,)])
    answered = time.monotonic()
    figures = {
        "load_s": loaded - began,
        "answer_s": answered - loaded,
        "held": resident_bytes() - before,
        "peak": peak() - before,
    }
    session.close()
    figures["left"] = resident_bytes() - before
    print(json.dumps(figures))


def peak() -> int:
    """The most that was resident, in bytes."""
    (line,) = (line for line in Path("/proc/self/status").read_text("ascii").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
